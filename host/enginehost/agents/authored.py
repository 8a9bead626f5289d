"""Engines that authors write as plain classes: how a host makes one, and its hooks."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import Any, TypeVar

from enginehost.engine import EngineContext
from enginehost.errors import ConfigError

_Made = TypeVar("_Made")

_BIRTH: ContextVar[tuple[EngineContext | None, Any]] = ContextVar("enginehost_birth", default=(None, None))
"""What the host gives the engine that is made now."""

_STARTS = "__enginehost_on_start__"


def in_host(cls: type[_Made], context: EngineContext, config: Any = None) -> _Made:
    """Make an engine whose class may have a constructor without parameters, or with defaults for them all.

    One that has to be given something is given ``(context, config)``. Raises :class:`ConfigError` for a
    constructor that leaves out its base's.
    """
    token = _BIRTH.set((context, config))
    try:
        made = cls() if _takes_nothing(cls) else cls(context, config)  # pyright: ignore[reportCallIssue]
    finally:
        _BIRTH.reset(token)
    if not hasattr(made, "context"):
        text = f"the constructor of {cls.__name__} leaves out its base class's"
        raise ConfigError(text, hint="call super().__init__() in it", reason="bad-constructor")
    return made


def _takes_nothing(cls: type[Any]) -> bool:
    try:
        inspect.signature(cls).bind()
    except TypeError:
        return False
    return True


def born_with(context: EngineContext | None, config: Any) -> tuple[EngineContext | None, Any]:
    """What a constructor was given, else what the host gives (once: to the first that asks)."""
    if context is not None:
        return context, config
    given, _ = _BIRTH.get(), _BIRTH.set((None, None))
    return given


def on_start(method: Any = None, /) -> Any:
    """Have a method of a service or an agent run when it starts, beside its ``on_start``.

    With and without parentheses.
    """

    def mark(method: Any) -> Any:
        setattr(method, _STARTS, True)
        return method

    return mark if method is None else mark(method)


async def run_hook(author: object, name: str) -> None:
    """Run the method ``name``, ``async`` or not; at the start also those that :func:`on_start` marks."""
    methods = [getattr(author, name)]
    if name == "on_start":
        marked = [one for one in dir(type(author)) if getattr(getattr(type(author), one), _STARTS, False)]
        methods += [getattr(author, one) for one in marked if one != name]
    for method in methods:
        done = method()
        if inspect.isawaitable(done):
            await done

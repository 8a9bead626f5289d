"""Typed methods as tools: their hints say what a model has to send, their docstrings what they are for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from enginehost.agents.typed_parameters import check_defaults, typed_parameters
from enginehost.agents.typed_results import result_schema
from enginehost.agents.typed_source import source_of
from enginehost.call import Call
from enginehost.engine import Annotations, Approval, Function, Limits, run_mode
from enginehost.errors import ConfigError
from enginehost.signature import FunctionSignature

_Method = TypeVar("_Method", bound=Callable[..., Any])
_MARK = "__enginehost_tool__"


@dataclass(frozen=True, slots=True)
class Mark:
    """What :func:`tool` says of a method. ``parameters`` is a schema in place of that of its hints."""

    name: str = ""
    annotations: Annotations = field(default_factory=Annotations)
    approval: Approval | str = Approval.NEVER
    timeout: float | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    parameters: Mapping[str, Any] | None = None
    hidden: tuple[str, ...] = ()
    """Parameters that are given the call and nobody is told of."""


@overload
def tool(method: _Method, /) -> _Method: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    tags: Sequence[str] = (),
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    approval: Approval | str = Approval.NEVER,
    timeout: float | None = None,
) -> Callable[[_Method], _Method]: ...


def tool(
    method: Any = None,
    /,
    *,
    name: str = "",
    description: str = "",
    tags: Sequence[str] = (),
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    approval: Approval | str = Approval.NEVER,
    timeout: float | None = None,
) -> Any:
    """Make a method a tool of an :class:`~enginehost.Agent`, or a function of a :class:`~enginehost.Service`.

    ``def``, ``async def`` or a generator. A parameter with the hint :class:`~enginehost.engine.Call` gets the
    call, and is none of the caller's. ``name`` and ``description`` stand for the method's own; ``timeout`` in
    seconds; the rest is what a function's file says of it (``FUNCTION_TAGS``, ``FUNCTION_ANNOTATIONS``,
    ``APPROVAL``).
    """
    hints = Annotations(read_only=read_only, destructive=destructive, idempotent=idempotent)
    listed = (tags,) if isinstance(tags, str) else tuple(tags)
    mark = Mark(name, hints, approval, timeout, description, listed)
    return marked(mark) if method is None else marked(mark)(method)


def marked(mark: Mark) -> Callable[[_Method], _Method]:
    """A decorator that says ``mark`` of a method; it gives the method itself back."""

    def decorate(method: _Method) -> _Method:
        setattr(getattr(method, "__func__", method), _MARK, mark)  # also of a staticmethod or classmethod
        return method

    return decorate


def tools_of(
    owner: object, *, reserved: type[Any] = object, service: str = "", tags: Sequence[str] = ()
) -> list[Function]:
    """The tools of an object's class and of those it comes from, in the order in which they stand there.

    They are offered under ``service``, with ``tags`` before their own. Raises ``ConfigError`` for a method
    whose hints or settings are wrong, with the class, the method and the parameter, for one in whose place
    the class ``reserved`` has a method of its own, and for two of one name.
    """
    found: list[Function] = []
    methods: dict[str, str] = {}
    for name, mark in _marks(type(owner)):
        if hasattr(reserved, name):
            text = f"{type(owner).__name__}.{name}: {reserved.__name__} has a method of this name for itself"
            hint = f'give the method another name, and write @tool(name="{name}") above it'
            raise ConfigError(text, hint=hint, reason="reserved-name")
        made = typed_function(getattr(owner, name), mark, service=service, tags=tags)
        other = methods.setdefault(made.signature.name, name)
        if other != name:
            text = f"{type(owner).__name__}.{name}: {other} is the tool {made.signature.name!r} already"
            raise ConfigError(text, hint="give one of the two another name", reason="name-taken")
        found.append(made)
    return found


def _marks(cls: type[Any]) -> Iterator[tuple[str, Mark]]:
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    for name in names:
        mark = getattr(getattr(cls, name, None), _MARK, None)
        if isinstance(mark, Mark):
            yield name, mark


def typed_function(
    method: Callable[..., Any], mark: Mark, *, service: str = "", tags: Sequence[str] = ()
) -> Function:
    """A bound method as a function. Raises ``ConfigError`` where its hints are wrong."""
    source = source_of(method, mark.hidden)
    taken = typed_parameters(source)
    if mark.parameters is None:
        check_defaults(source, taken.schema)
    own = mark.name or source.name

    def run(arguments: dict[str, Any], call: Call) -> Any:
        given = taken.read(own, arguments)
        return method(**given, **dict.fromkeys(source.calls, call))

    mode = run_mode(method)
    signature = FunctionSignature(
        own,
        mark.description or source.told.description,
        taken.schema if mark.parameters is None else mark.parameters,
        result=result_schema(source, streams=mode.streams),
        annotations=mark.annotations,
        streaming=mode.streams,
        tags=tuple(dict.fromkeys((*tags, *mark.tags))),
    )
    limits = Limits(timeout=_timeout(source.where, mark.timeout))
    approval = _approval(source.where, mark.approval)
    return Function(signature, run, mode, limits=limits, approval=approval, service=service)


def _timeout(where: str, seconds: Any) -> float | None:
    if seconds is None:
        return None
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds < math.inf:
        text = f"{where}, @tool(timeout={seconds!r}): a timeout is a number of seconds above 0"
        raise ConfigError(text, hint="leave it out for the host's own", reason="bad-setting")
    return seconds


def _approval(where: str, said: Approval | str) -> Approval:
    try:
        return Approval(said)
    except ValueError:
        text = f"{where}, @tool(approval={said!r}): there is no such approval"
        hint = f"say one of {', '.join(Approval)}"
        raise ConfigError(text, hint=hint, reason="bad-setting") from None

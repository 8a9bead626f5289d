"""The stages and the harness that an agent's keys name: the host's own, or Python of the folder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from enginehost.agents.config import AgentConfig, words
from enginehost.agents.contract import Harness, Stage
from enginehost.agents.in_process import load_object
from enginehost.agents.stages import make_stage
from enginehost.engine import EngineContext
from enginehost.errors import ConfigError

_LONGEST_QUOTED = 60


def stages(given: list[Any] | str, context: EngineContext, key: str, files: list[Path]) -> list[Stage]:
    """The stages of a key. Raises :class:`ConfigError`; ``files`` gets those that they lie in."""
    listed: Sequence[Any] = words(given) if isinstance(given, str) else given
    return [_stage(one, at, context, key, files) for at, one in enumerate(listed, 1)]


def _stage(one: Any, at: int, context: EngineContext, key: str, files: list[Path]) -> Stage:
    if callable(one):
        return _checked(one, str(getattr(one, "__qualname__", one))[:_LONGEST_QUOTED], key, called=False)
    name, arguments = _named(one, at, key)
    try:
        if ":" not in name:
            return make_stage(name, arguments or {})
        found, file = load_object(name, context, key)
        files += [file] if file is not None else []
        made = found if arguments is None else found(**arguments)
    except ConfigError as error:
        if not error.message.startswith(key):
            error.message = f"{key}: {error.message}"
        error.key = key
        raise
    except Exception as error:
        raise ConfigError(f"{key}: {name} failed: {type(error).__name__}: {error}", key=key) from error
    return _checked(made, name, key, called=arguments is not None)


def _named(one: Any, at: int, key: str) -> tuple[str, Mapping[str, Any] | None]:
    named: Any = {one: None} if isinstance(one, str) else one
    if not isinstance(named, Mapping) or len(named) != 1:
        text = f"{key}: entry {at} is {str(one)[:_LONGEST_QUOTED]}, and names no stage"
        hint = (
            'an entry is the name of a stage, or an object with its arguments: {"budget": {"tokens": 50000}}'
        )
        raise ConfigError(text, key=key, hint=hint, reason="bad-stage")
    name, arguments = cast("tuple[Any, Any]", next(iter(named.items())))
    if not isinstance(name, str) or (arguments is not None and not isinstance(arguments, Mapping)):
        raise ConfigError(f"{key}: the arguments of {str(name)[:100]} have to be an object", key=key)
    return name, arguments


def _checked(made: Any, name: str, key: str, *, called: bool) -> Stage:
    fault = _fault(made)
    if not fault:
        return cast("Stage", made)
    hint = "a stage is an async generator: async def stage(messages, turn), with yield in it"
    if not called and callable(made):
        hint += f'; what makes one is named with its arguments: {{"{name}": {{}}}}'
    raise ConfigError(f"{key}: {name} is no stage: it {fault}", key=key, hint=hint, reason="bad-stage")


def _fault(made: Any) -> str:
    """Why something cannot be a stage, as far as it can be told without a message; empty where it may."""
    if not callable(made):
        return f"is a {type(made).__name__}"
    if inspect.iscoroutinefunction(made):
        return "is a coroutine, without yield"
    if inspect.isgeneratorfunction(made):
        return "is no async generator"
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):  # of some builtins nothing is known
        return ""
    try:
        signature.bind(None, None)
    except TypeError:
        return f"takes {signature}, and not (messages, turn)"
    return ""


def harness(config: AgentConfig, context: EngineContext, files: list[Path]) -> Harness | None:
    """The harness of the key ``HARNESS``; ``None`` where there is none. Raises :class:`ConfigError`."""
    if not config.harness:
        return None
    found: Any = config.harness
    if isinstance(found, str):
        found, file = load_object(found, context, "HARNESS")
        files += [file] if file is not None else []
    try:
        made = found if isinstance(found, Harness) else found()
    except Exception as error:
        text = f"HARNESS: {config.harness} failed: {type(error).__name__}: {error}"
        raise ConfigError(text, key="HARNESS") from error
    if not isinstance(made, Harness):
        raise ConfigError(f"HARNESS: {config.harness} is no Harness", key="HARNESS")
    return made

"""Options of a request to a model are looked at before anything is sent."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from enginehost.engine import Function
from enginehost.errors import InvalidRequest
from enginehost.llm.model import ToolChoice
from enginehost.signature import FunctionSignature
from enginehost.values import NotJson, to_json

_MOST = 100
"""Characters of a wrong value that are said."""

_EFFORTS = ("none", "minimal", "low", "medium", "high")


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that are ``None``, each of the type that it needs.

    Raises :class:`InvalidRequest`, which names the nearest option where there is none of the name.
    """
    for name in given:
        if name not in _CHECKS:
            raise InvalidRequest(f"send has no option {name[:_MOST]!r}{nearest(name, _CHECKS)}")
    return {name: _CHECKS[name](name, value) for name, value in given.items() if value is not None}


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that nobody knows: the nearest one, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(
        name.replace("_", ""), [one.replace("_", "") for one in names], n=1
    )
    by_letters = {one.replace("_", ""): one for one in names}
    return f"; did you mean {by_letters.get(near[0], near[0])}?" if near else f"; it has {', '.join(names)}"


def _wrong(name: str, wanted: str, value: Any) -> InvalidRequest:
    return InvalidRequest(f"{name} is {wanted}, not {repr(value)[:_MOST]}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "a text", value)
    return value


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, "True or False", value)
    return value


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _wrong(name, "a whole number from 1", value)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _temperature(name: str, value: Any) -> float:
    if not _is_number(value) or value < 0:
        raise _wrong(name, "a number from 0", value)
    return value


def _seconds(name: str, value: Any) -> float:
    if not _is_number(value) or value <= 0:
        raise _wrong(name, "a number of seconds above 0", value)
    return value


def _effort(name: str, value: Any) -> str:
    if value not in ("", *_EFFORTS):
        raise _wrong(name, f"one of {', '.join(_EFFORTS)}", value)
    return value


def _stop(name: str, value: Any) -> Sequence[str]:
    """Texts, or one."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or isinstance(listed, bytes | bytearray):
        raise _wrong(name, "a text or a list of texts", cast("Any", listed))
    texts = tuple(cast("Sequence[Any]", listed))
    for text in texts:
        if not isinstance(text, str) or not text:
            raise _wrong(name, "a list of texts that are not empty", value)
    return texts


def _tools(name: str, value: Any) -> Sequence[Any]:
    """Functions, or one."""
    if isinstance(value, str | Function | FunctionSignature):
        return (value,)
    if not isinstance(value, Iterable):
        raise _wrong(name, "names of functions or their signatures", value)
    tools = tuple(cast("Iterable[Any]", value))
    for tool in tools:
        if not isinstance(tool, str | Function | FunctionSignature):
            raise _wrong("a tool", "the name of a function or its signature", tool)
    return tools


def _tool_choice(name: str, value: Any) -> Any:
    if not isinstance(value, str | ToolChoice):
        raise _wrong(name, "auto, none, required or the name of a tool", value)
    if isinstance(value, ToolChoice) and value.kind not in ("auto", "none", "required", "tool"):
        raise _wrong("the kind of tool_choice", "auto, none, required or tool", value.kind)
    return value


def _extra(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping of members of the provider's request", value)
    try:
        return to_json(dict(cast("Mapping[str, Any]", value)))
    except NotJson as error:
        raise InvalidRequest(f"extra is no JSON at {error.pointer or '/'}: {error.reason}") from None


def _any(name: str, value: Any) -> Any:
    return value


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "model": _text,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tools": _switch,
    "schema": _any,  # looked at where its form is made
    "max_tokens": _count,
    "temperature": _temperature,
    "stop": _stop,
    "reasoning": _effort,
    "cache": _switch,
    "timeout": _seconds,
    "total_timeout": _seconds,
    "extra": _extra,
}
"""Every option of ``Options``, and what it has to be."""

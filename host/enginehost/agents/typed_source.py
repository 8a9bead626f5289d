"""What a method says of itself: its parameters with their hints, its result's hint, its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, get_type_hints

from enginehost.call import Call
from enginehost.errors import ConfigError

RESULT = "return"
"""The name under which Python keeps the hint of what a function answers."""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
NO_HINT: Any = inspect.Parameter.empty
"""Stands for the hint of a result that has none."""


@dataclass(frozen=True, slots=True)
class Told:
    """A docstring taken apart."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    result: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """One parameter: its hint (``Any`` without one) and its default (``...`` without one)."""

    name: str
    hint: Any
    default: Any
    description: str = ""


@dataclass(frozen=True, slots=True)
class MethodSource:
    """A method. ``where`` is how errors call it; ``calls`` are the parameters that get the call."""

    where: str
    name: str
    parameters: tuple[Taken, ...]
    result: Any
    told: Told
    calls: tuple[str, ...] = ()


def source_of(method: Callable[..., Any], hidden: tuple[str, ...] = ()) -> MethodSource:
    """Read a bound method, or a function. ``hidden`` parameters are given the call, whatever their hint.

    Raises ``ConfigError`` for a hint that cannot be read and for parameters that have no name.
    """
    where = _where(method)
    told = read_docstring(inspect.getdoc(method) or "")
    hints = _hints(method, where)
    taken: list[Taken] = []
    calls: list[str] = []
    for name, parameter in inspect.signature(method).parameters.items():
        hint = hints.get(name, Any)
        if hint is Call or name in hidden:
            calls.append(name)
            continue
        if parameter.kind not in _BY_NAME:
            told_hint = "callers give every argument by its name: declare each parameter"
            raise _fault(where, name, f"a tool cannot have a parameter such as {parameter}", told_hint)
        default = ... if parameter.default is NO_HINT else parameter.default
        taken.append(Taken(name, hint, default, told.parameters.get(name, "")))
    name = method.__name__
    return MethodSource(where, name, tuple(taken), hints.get(RESULT, NO_HINT), told, tuple(calls))


def hint_fault(where: str, name: str, hint: Any, cause: BaseException) -> ConfigError:
    """A hint of which no JSON Schema can be made, at its method and parameter."""
    text = " ".join(str(cause).partition("\n")[0].split())
    shown = getattr(hint, "__name__", None) if isinstance(hint, type) else None
    why = f"{shown or hint} says nothing that a caller could send as JSON"
    if "typing_extensions" in text:
        why = text.rstrip(".")
    return _fault(where, name, why, "use built-in types, dataclasses, TypedDict, enums or pydantic models")


def default_fault(where: str, name: str, why: str) -> ConfigError:
    """A default that its own hint does not allow, at its method and parameter."""
    hint = "give it a default that fits, or another hint"
    return _fault(where, name, f"its default does not fit its hint: {why}", hint, "bad-default")


def _fault(where: str, name: str, why: str, hint: str, reason: str = "bad-hint") -> ConfigError:
    place = "what it answers" if name == RESULT else f"parameter {name}"
    return ConfigError(f"{where}, {place}: {why}", hint=hint, reason=reason)


def _where(method: Callable[..., Any]) -> str:
    owner = getattr(method, "__self__", None)
    cls = owner if isinstance(owner, type) else type(owner)
    return method.__qualname__ if owner is None else f"{cls.__name__}.{method.__name__}"


def _hints(method: Callable[..., Any], where: str) -> dict[str, Any]:
    """The hints, one by one, so that it is known which is wrong; names may stand in the class as well."""
    function: Any = inspect.unwrap(getattr(method, "__func__", method))
    owner = getattr(method, "__self__", None)
    cls = owner if isinstance(owner, type) else type(owner)
    names = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    names = {name: value for name, value in names.items() if isinstance(value, type)}
    found: dict[str, Any] = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        one = SimpleNamespace(__annotations__={name: hint})
        try:
            read = get_type_hints(one, getattr(function, "__globals__", {}), names, include_extras=True)
        except Exception as error:
            why = f"its hint {hint!r} cannot be read: {error}"
            hint_of_it = "import the name where the class is defined, not under TYPE_CHECKING alone"
            raise _fault(where, name, why, hint_of_it) from error
        found[name] = read[name]
    return found


def read_docstring(text: str) -> Told:
    """Google's, numpy's, reST's and Epydoc's way of telling what parameters are for."""
    from docstring_parser import ParseError, parse

    try:
        read = parse(text)
    except ParseError:
        return Told(text.strip())
    description = "\n\n".join(filter(None, (read.short_description, read.long_description)))
    parameters = {
        name.strip().lstrip("*"): _joined(one.description)
        for one in read.params
        for name in one.arg_name.split(",")
    }
    answers = read.returns.description if read.returns is not None else ""
    return Told(description.strip(), parameters, _joined(answers))


def _joined(text: str | None) -> str:
    """A description whose lines were only broken to be short."""
    return re.sub(r"\s*\n\s*", " ", text or "").strip()

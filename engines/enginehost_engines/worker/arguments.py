"""Arguments as a function's type hints ask for them: dates, enums, dataclasses and their like.

JSON has none of these; callers send them in the form that :mod:`enginehost.values` gives results. Needs only
the standard library of Python 3.9.
"""

from __future__ import annotations

import base64
import collections
import collections.abc
import contextlib
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import pathlib
import re
import sys
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from enginehost.errors import InvalidArguments

Convert = Callable[[Any], Any]
"""Makes a value of what a caller sent. Raises ``ValueError``, ``TypeError`` or what a user's class raises."""

_DURATION = re.compile(
    r"([+-])?P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


class Unmakeable(ValueError):
    """A value of which none that a hint asks for can be made; ``allowed`` says what can."""

    def __init__(self, message: str, allowed: Any) -> None:
        super().__init__(message)
        self.allowed = allowed


def call_with(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    name: str = "",
    types: Mapping[str, str] = {},
    positional: Sequence[str] = (),
) -> Any:
    """Call ``function`` with what the host says of its parameters.

    ``name``, by which callers know it, is there where values are made for its hints; ``types`` are those that
    its docstring gives parameters without hint; ``positional`` are taken by position only.
    Raises :class:`InvalidArguments`.
    """
    if name:
        arguments = converted(function, name, arguments, types)
    if not positional:
        return function(**arguments)
    rest = dict(arguments)
    first = list(_by_position(function, positional, rest))
    return function(*first, **rest)


def _by_position(
    function: Callable[..., Any], names: Sequence[str], arguments: dict[str, Any]
) -> collections.abc.Iterator[Any]:
    """The values of the parameters ``names``, taken out of ``arguments``; one left out has its default."""
    parameters = inspect.signature(function).parameters
    for name in names:
        if name in arguments:
            yield arguments.pop(name)
        elif name in parameters and parameters[name].default is not inspect.Parameter.empty:
            yield parameters[name].default
        else:
            return


def converted(
    function: Callable[..., Any],
    name: str,
    arguments: dict[str, Any],
    types: Mapping[str, str] = {},
) -> dict[str, Any]:
    """The arguments for ``function``, which callers know by ``name``; ``types`` as in :func:`call_with`.

    Raises :class:`InvalidArguments`.
    """
    known = _known.get(function)
    if known is None:
        known = _known[function] = _converts(function, types)
    if not known:
        return arguments
    found = dict(arguments)
    for key in arguments.keys() & known.keys():
        try:
            found[key] = known[key](found[key])
        except Exception as error:
            text = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
            fault = {"pointer": f"/{key}", "message": text}
            faults = [{**fault, "allowed": error.allowed} if isinstance(error, Unmakeable) else fault]
            raise InvalidArguments(f"{name} at /{key}: {text}", errors=faults) from error
    return found


_known: dict[Callable[..., Any], dict[str, Convert]] = {}


def _converts(function: Callable[..., Any], types: Mapping[str, str]) -> dict[str, Convert]:
    """For each parameter that needs it, how its value is made."""
    plain = inspect.unwrap(function)
    hints = {**_resolved(types, {**_space(plain), **_MODULES}), **_hints(plain)}
    found = {name: convert for name, hint in hints.items() if (convert := _conversion(hint)) is not None}
    found.pop("return", None)
    return found


def _hints(thing: Any) -> dict[str, Any]:
    """The hints that can be resolved: one that is there only for type checkers hides no other."""
    with contextlib.suppress(Exception):  # a hint is code of the user's, and may raise anything
        return typing.get_type_hints(thing)
    return _resolved(dict(getattr(thing, "__annotations__", {})), _space(thing))


def _space(thing: Any) -> dict[str, Any]:
    """The names that hints of a function or class are made of."""
    return getattr(thing, "__globals__", None) or vars(sys.modules.get(thing.__module__, typing))


def _resolved(hints: Mapping[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    space = {**_NAMES, **space}
    found: dict[str, Any] = {}
    for name, hint in hints.items():
        try:
            found[name] = eval(hint, space) if isinstance(hint, str) else hint  # noqa: S307 - the user's own code
        except Exception:  # noqa: BLE001, S112 - as above
            continue
    return found


def _conversion(hint: Any, open_classes: tuple[Any, ...] = ()) -> Convert | None:
    """How values of a hint are made; ``None`` where they are what JSON has."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return _of_class(getattr(hint, "__supertype__", hint), open_classes)
    if _is_union(origin):
        return _of_union(arguments, open_classes)
    if origin is typing.Literal:
        members = {item.value: item for item in arguments if isinstance(item, enum.Enum)}
        return (lambda value: members.get(value, value)) if members else None
    if not isinstance(origin, type):  # Annotated, Required and their like
        return _conversion(arguments[0], open_classes) if arguments else None
    if issubclass(origin, tuple):
        return _of_tuple(arguments, open_classes)
    if issubclass(origin, collections.abc.Mapping):
        return _of_mapping(origin, arguments, open_classes)
    if issubclass(origin, collections.abc.Iterable):
        return _of_items(origin, arguments, open_classes)
    return _of_class(origin, open_classes)


def _is_union(origin: Any) -> bool:
    return origin is typing.Union or getattr(origin, "__name__", "") == "UnionType"


def _of_class(kind: Any, open_classes: tuple[Any, ...]) -> Convert | None:
    if kind is datetime:
        kind = datetime.datetime  # the module, which docstrings take for the class
    if not isinstance(kind, type):
        return None
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return _unless(kind, simple)
    if issubclass(kind, enum.Enum):
        values = [one.value for one in kind if isinstance(one.value, (bool, int, float, str))]
        return _unless(kind, _made(kind, kind.__name__, values))
    if issubclass(kind, pathlib.PurePath):
        return _unless(kind, kind)
    validate = getattr(kind, "model_validate", None) or getattr(kind, "parse_obj", None)
    if validate is not None:
        return _unless(kind, validate)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _of_record(kind, open_classes)
    if hasattr(kind, "__total__"):  # a typed dict
        return _of_record(kind, open_classes)
    if kind in (set, frozenset, tuple, collections.deque):
        return _unless(kind, kind)
    return _as_list if kind is list else None


def _unless(kind: Any, make: Convert) -> Convert:
    """``make``, for what is none of that kind yet."""
    return lambda value: value if isinstance(value, kind) else make(value)


def _of_record(kind: Any, open_classes: tuple[Any, ...]) -> Convert | None:
    """Classes with fields; one inside itself is looked up when a value is there."""
    if kind in open_classes:

        def later(value: Any) -> Any:
            return (_conversion(kind) or _same)(value)

        return later
    inner = {
        name: convert
        for name, hint in _hints(kind).items()
        if (convert := _conversion(hint, (*open_classes, kind))) is not None
    }
    is_dict, of_fields = hasattr(kind, "__total__"), cast("Callable[..., Any]", kind)
    if is_dict and not inner:
        return None
    taken = None if is_dict else _taken(kind)

    def make(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return of_fields(*value) if isinstance(value, list) and hasattr(kind, "_fields") else value
        if taken is not None and (unknown := value.keys() - taken):
            raise Unmakeable(
                f"{', '.join(map(_shown, sorted(unknown)))} is no field of {kind.__name__}", taken
            )
        fields = {key: inner[key](item) if key in inner else item for key, item in value.items()}
        return fields if is_dict else of_fields(**fields)

    return make


def _taken(kind: Any) -> list[str] | None:
    """The fields of which a class is made; ``None`` where it takes any, or does not say."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    return [one.name for one in parameters]


def _same(value: Any) -> Any:
    return value


def _as_list(value: Any) -> Any:
    """What callers in Python give for an array of JSON: numpy's arrays, tuples, sets."""
    if isinstance(value, (list, str, bytes, bytearray, Mapping)) or value is None:
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, collections.abc.Iterable) else value


def _of_union(options: tuple[Any, ...], open_classes: tuple[Any, ...]) -> Convert | None:
    """The first option that the value is or can be made into."""
    ways = [(option, _conversion(option, open_classes)) for option in options]
    if not any(convert for _, convert in ways):
        return None

    def make(value: Any) -> Any:
        if type(value) not in _OF_JSON:
            for option, convert in ways:
                if _is_just(value, option):
                    return convert(value) if convert is not None else value
        fault: Exception | None = None
        for option, convert in ways:
            if convert is None:
                if _is_of(value, option):
                    return value
                continue
            try:
                if value is not None:
                    return convert(value)
            except Exception as error:  # noqa: BLE001 - a class of the user's may raise anything
                fault = fault or error
        if fault is not None:
            raise fault
        return value

    return make


def _is_just(value: Any, option: Any) -> bool:
    """Whether a value is of a class that is an option."""
    kind = typing.get_origin(option) or option
    return isinstance(kind, type) and isinstance(value, kind)


def _is_of(value: Any, option: Any) -> bool:
    """Whether a value of JSON is one of an option that asks for no more."""
    kind = typing.get_origin(option) or option
    if kind is typing.Literal:
        return value in typing.get_args(option)
    if not isinstance(kind, type):
        return True
    return isinstance(value, dict if hasattr(kind, "__total__") else kind)


def _of_tuple(arguments: tuple[Any, ...], open_classes: tuple[Any, ...]) -> Convert:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        every = _conversion(arguments[0], open_classes) or _same
        return lambda value: tuple(every(item) for item in value)
    each = [_conversion(argument, open_classes) or _same for argument in arguments]
    return lambda value: tuple(way(item) for way, item in zip(each, value))  # noqa: B905 - Python 3.9 has no strict


def _of_items(origin: Any, arguments: tuple[Any, ...], open_classes: tuple[Any, ...]) -> Convert | None:
    every = _conversion(arguments[0], open_classes) if arguments else None
    if issubclass(origin, collections.abc.Set):
        kind: Any = frozenset if origin is frozenset else set
    elif origin is collections.deque:
        kind = collections.deque
    elif every is None:
        return _as_list
    else:
        kind = list
    if kind is list:
        return lambda value: [every(item) for item in _as_list(value)] if every else _as_list(value)
    return lambda value: kind(every(item) if every else item for item in value)


def _of_mapping(origin: Any, arguments: tuple[Any, ...], open_classes: tuple[Any, ...]) -> Convert | None:
    keys, values = arguments if len(arguments) == 2 else (str, Any)
    key = _KEYS.get(keys) or _conversion(keys, open_classes)
    value = _conversion(values, open_classes)
    kind = origin if origin in (collections.OrderedDict, collections.Counter) else None
    if key is None and value is None and kind is None:
        return None
    of_key, of_value = key or _same, value or _same

    def make(given: Any) -> Any:
        found = {of_key(name): of_value(item) for name, item in given.items()}
        return kind(found) if kind is not None else found

    return make


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(_with_offset(text))


def _time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(_with_offset(text))


def _with_offset(text: str) -> str:
    """``Z`` as Python before 3.11 writes it."""
    return f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text


def _span(value: Any) -> datetime.timedelta:
    if isinstance(value, (int, float)):
        return datetime.timedelta(seconds=value)
    match = _DURATION.fullmatch(value)
    if match is None or not any(match.groups()[1:]):
        raise ValueError
    units = ("weeks", "days", "hours", "minutes", "seconds")
    parts = {unit: float(part or 0) for unit, part in zip(units, match.groups()[1:])}  # noqa: B905 - as above
    span = datetime.timedelta(**parts)
    return -span if match[1] == "-" else span


def _number(value: Any) -> decimal.Decimal:
    try:
        return decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        raise ValueError from None


def _binary(value: Any) -> bytes:
    return (
        bytes(value) if isinstance(value, (bytearray, memoryview)) else base64.b64decode(value, validate=True)
    )


def _made(make: Convert, what: str, allowed: Any) -> Convert:
    """``make``, whose refusals say what was asked for."""

    def convert(value: Any) -> Any:
        try:
            return make(value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise Unmakeable(f"{_shown(value)} is no {what}", allowed) from None

    return convert


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=lambda value: type(value).__name__)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


_MOST_SHOWN = 80
"""Characters of a value in the message that says that it is wrong."""
_SIMPLE: dict[Any, Convert] = {
    datetime.datetime: _made(
        _moment, "date and time, such as 2026-01-31T12:30:00Z", {"examples": ["2026-01-31T12:30:00Z"]}
    ),
    datetime.date: _made(datetime.date.fromisoformat, "date, such as 2026-01-31", {"format": "date"}),
    datetime.time: _made(_time, "time, such as 12:30:00", {"examples": ["12:30:00"]}),
    datetime.timedelta: _made(_span, "ISO 8601 duration, such as P1DT2H30M", {"examples": ["P1DT2H30M"]}),
    decimal.Decimal: _made(_number, "number", {"type": ["number", "string"]}),
    uuid.UUID: _made(uuid.UUID, "UUID", {"format": "uuid"}),
    bytes: _made(_binary, "base64 text (RFC 4648)", {"contentEncoding": "base64"}),
    bytearray: _made(
        lambda value: bytearray(_binary(value)), "base64 text (RFC 4648)", {"contentEncoding": "base64"}
    ),
}
_KEYS: dict[Any, Convert] = {int: int, float: float}
"""Keys that JSON has as text only."""
_OF_JSON = frozenset([type(None), bool, int, float, str, list, dict])
_NAMES: dict[str, Any] = {
    **{kind.__name__: kind for kind in (datetime.date, datetime.time, datetime.timedelta, uuid.UUID)},
    **{kind.__name__: kind for kind in (decimal.Decimal, pathlib.Path)},
    **vars(typing),
}
"""What hints may be made of where the script has no such name."""
_MODULES: dict[str, Any] = {
    module.__name__: module for module in (collections, datetime, decimal, pathlib, typing, uuid)
}
"""What docstrings mean by these names, whatever the script has imported under them."""

"""What pydantic finds wrong with a value, in the words of this host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

_TEXTS: Mapping[str, str] = {
    "greater_than": "has to be above {gt}",
    "greater_than_equal": "has to be at least {ge}",
    "less_than": "has to be below {lt}",
    "less_than_equal": "has to be at most {le}",
    "finite_number": "has to be a finite number",
    "literal_error": "has to be {expected}",
    "enum": "has to be {expected}",
    "string_pattern_mismatch": "has to match {pattern}",
    "string_too_long": "may have at most {max_length} characters",
    "too_long": "may have at most {max_length} entries",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "has to be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "has to be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "has to be true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "iterable_type"), "has to be a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "has to be an object of keys with values",
    ),
    **dict.fromkeys(("byte_size", "byte_size_unit"), "has to be a size: bytes, or text such as 10MiB"),
    "string_type": "has to be text",
    "path_type": "has to be a path",
    "missing": "is missing",
}
_LEAST = {"string_too_short": "characters", "too_short": "entries"}


def fault_text(fault: Mapping[str, Any]) -> str:
    """What is wrong, to stand behind the key's name. ``fault`` is one of ``ValidationError.errors()``."""
    kind, context = str(fault["type"]), fault.get("ctx") or {}
    if kind in _LEAST:
        least = context.get("min_length")
        return "must not be empty" if least == 1 else f"needs at least {least} {_LEAST[kind]}"
    if kind in _TEXTS:
        return _TEXTS[kind].format(**{name: _number(value) for name, value in context.items()})
    text = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text.replace("Input should be", "has to be").replace("Input should", "has to")


def first_fault(error: ValidationError) -> str:
    """What is wrong first, and where.

    No colon stands behind the name: what follows a name such as ``tokens:`` is masked as a secret.
    """
    return placed_fault(error.errors(include_url=False, include_input=False)[0])


def placed_fault(fault: Mapping[str, Any]) -> str:
    """Likewise, of one of ``ValidationError.errors()``."""
    where, text = ".".join(map(str, fault["loc"])), fault_text(fault)
    if not where:
        return text
    return f"{text} (at {where})" if fault["type"] == "value_error" else f"{where} {text}"


_UNPARSED = {"int_parsing", "int_type", "int_from_float", "float_parsing", "float_type", "finite_number"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def bounds_text(rules: Iterable[Any], fault: Mapping[str, Any]) -> str:
    """What else is asked of a number that is none, to stand behind :func:`fault_text`.

    ``rules`` is the ``metadata`` of the field.
    """
    if str(fault["type"]) not in _UNPARSED:
        return ""
    bounds = [
        f"{words} {_number(getattr(rule, name))}"
        for rule in rules
        for name, words in _BOUNDS.items()
        if getattr(rule, name, None) is not None
    ]
    return f", {' and '.join(bounds)}" if bounds else ""


def _number(value: Any) -> Any:
    """A bound as people write it: ``0`` for ``0.0``."""
    return f"{value:g}" if isinstance(value, float) else value

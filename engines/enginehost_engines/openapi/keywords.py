"""The keywords of a schema that are copied, each with what its value has to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})

LONGEST_TEXT = 4000
"""Characters of a description; more helps no caller."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(cast("list[Any]", value))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def _is_names_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_names, cast("dict[str, Any]", value).values()))


@lru_cache(4096)
def is_pattern(pattern: Any) -> bool:
    """Whether values can be checked against a regular expression."""
    if not isinstance(pattern, str):
        return False
    from jsonschema_rs import Draft202012Validator

    try:
        Draft202012Validator({"pattern": pattern})
    except ValueError:
        return False
    return True


COPIED: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _is_text),
    "enum": _is_list,
    **dict.fromkeys(("const", "default"), lambda value: True),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_count),
    "pattern": is_pattern,
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    "required": _is_names,
    "dependentRequired": _is_names_by_name,
    "examples": _is_list,
}
"""The keywords with plain values."""

ONE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
"""The keywords with one schema."""
LATER = ("unevaluatedItems", "unevaluatedProperties", "contentSchema")
"""Those that OpenAPI has since 3.1."""
LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
MAPS = ("properties", "patternProperties", "dependentSchemas")
NOT_READ = ("$dynamicRef", "$recursiveRef")
"""Keywords whose meaning is lost."""


def shortened(text: str) -> str:
    """A description that is not too long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"

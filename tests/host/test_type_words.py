"""What people write as a type becomes JSON Schema."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.type_words import type_schema

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
_WORDS = "List Map dict Optional Union tuple str int Object date java.util.Set x < > [ ] [] , | ? None"
PARTS = st.sampled_from([*_WORDS.split(), " "])


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("String", STRING),
        ("str", STRING),
        ("java.lang.String", STRING),
        ("file", STRING),
        ("Double", NUMBER),
        ("float", NUMBER),
        ("number", NUMBER),
        ("Integer", INTEGER),
        ("int", INTEGER),
        ("LONG", INTEGER),
        ("boolean", {"type": "boolean"}),
        ("Bool", {"type": "boolean"}),
        ("date", {"type": "string", "format": "date"}),
        ("datetime", {"type": "string", "format": "date-time"}),
        ("date-time", {"type": "string", "format": "date-time"}),
        ("array", {"type": "array"}),
        ("List", {"type": "array"}),
        ("List<String>", {"type": "array", "items": STRING}),
        ("list[str]", {"type": "array", "items": STRING}),
        ("typing.List[int]", {"type": "array", "items": INTEGER}),
        ("string[]", {"type": "array", "items": STRING}),
        ("int[][]", {"type": "array", "items": {"type": "array", "items": INTEGER}}),
        ("Object[]", {"type": "array"}),
        ("Set<Long>", {"type": "array", "uniqueItems": True, "items": INTEGER}),
        (
            "tuple[str, int]",
            {"type": "array", "prefixItems": [STRING, INTEGER], "minItems": 2, "maxItems": 2},
        ),
        ("object", {"type": "object"}),
        ("dict", {"type": "object"}),
        ("Map<String,Object>", {"type": "object"}),
        ("Map<String, Integer>", {"type": "object", "additionalProperties": INTEGER}),
        (
            "dict[str, list[float]]",
            {"type": "object", "additionalProperties": {"type": "array", "items": NUMBER}},
        ),
        ("Map<?, ?>", {"type": "object"}),
        ("Optional[int]", {"type": ["integer", "null"]}),
        ("Optional<Date>", {"type": ["string", "null"], "format": "date"}),
        ("str | None", {"type": ["string", "null"]}),
        ("int?", {"type": ["integer", "null"]}),
        ("Union[int, str]", {"type": ["integer", "string"]}),
        ("date | int", {"anyOf": [{"type": "string", "format": "date"}, INTEGER]}),
        ("Any", {}),
        ("List<Any>", {"type": "array"}),
    ],
)
def test_type_words(text: str, schema: dict[str, Any]) -> None:
    assert type_schema(text) == schema
    assert type_schema(f" {text.upper()} ") == schema


@pytest.mark.parametrize(
    "text", ["", "spam", "List<", "List<String", "List<String>>", "str[int]", "a b", "<", "|", "x" * 201]
)
def test_what_is_no_type_is_unknown(text: str) -> None:
    assert type_schema(text) is None


@given(st.one_of(st.text(), st.lists(PARTS, max_size=20).map("".join)))
def test_no_text_crashes_the_reader_and_every_schema_is_valid(text: str) -> None:
    schema = type_schema(text)
    if schema is not None:
        jsonschema_rs.Draft202012Validator(dict(schema))

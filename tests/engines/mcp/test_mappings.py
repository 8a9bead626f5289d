"""Tools into signatures, bytes into messages, pauses: for whatever a server may say."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.specs import SPEC_KINDS, to_spec
from enginehost_engines.mcp.connection import FIRST_PAUSE, STEADY_SECONDS, Pauses
from enginehost_engines.mcp.results import LONGEST_ERROR, one_line
from enginehost_engines.mcp.tools import LONGEST_NAME, Selection, Tool, offers

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    ["type", "properties", "required", "items", "$ref", "$schema", "anyOf", "default", "enum", "pattern",
     "additionalProperties", "$defs", "minimum", "const", "not"]
)  # fmt: skip
KINDS = st.sampled_from(
    ["object", "string", "integer", "array", "null", "nonsense", "#/$defs/a", "http://x/y"]
)
SCHEMAS = st.recursive(
    JSON | KINDS,
    lambda inner: (
        st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5) | st.lists(inner, max_size=3)
    ),
    max_leaves=15,
)
TOOLS = st.builds(
    Tool,
    name=st.text(max_size=300),
    description=st.text(max_size=50),
    input_schema=SCHEMAS | st.fixed_dictionaries({"type": st.just("object"), "properties": SCHEMAS}),
    output_schema=st.none() | SCHEMAS,
    title=st.none() | st.text(max_size=20),
)


@given(st.lists(TOOLS, max_size=6))
@settings(max_examples=150, deadline=None)
def test_whatever_a_server_offers_what_is_kept_can_be_used(tools: list[Tool]) -> None:
    from jsonschema_rs import Draft202012Validator

    kept, _ = offers(tools, Selection(prefix="p_"))
    assert [one.signature.name for one in kept] == sorted({f"p_{one.tool}" for one in kept})
    for one in kept:
        signature = one.signature
        assert 0 < len(signature.name) <= LONGEST_NAME
        assert signature.parameters["type"] == "object"
        assert isinstance(signature.parameters["properties"], dict)
        Draft202012Validator(dict(signature.parameters), offline=True)
        for kind in SPEC_KINDS:
            json.dumps(to_spec(signature, kind))


@given(
    st.lists(st.text("abc_*?", max_size=4), max_size=3), st.lists(st.text("abc_*?", max_size=4), max_size=3)
)
@settings(max_examples=50, deadline=None)
def test_what_is_excluded_is_never_offered(include: list[str], exclude: list[str]) -> None:
    from fnmatch import fnmatchcase

    tools = [Tool(name, input_schema={"type": "object"}) for name in ("a", "ab", "abc", "b_c", "c*")]
    kept, _ = offers(tools, Selection(include=tuple(include), exclude=tuple(exclude)))
    for one in kept:
        assert not any(fnmatchcase(one.tool, pattern) for pattern in exclude)
        assert not include or any(fnmatchcase(one.tool, pattern) for pattern in include)


def test_a_schema_without_properties_takes_everything_and_one_with_them_does_not() -> None:
    def parameters(schema: dict[str, Any]) -> Any:
        ((offer,), _) = offers([Tool("t", input_schema=schema)], Selection())
        return offer.signature.parameters

    assert parameters({"type": "object"})["additionalProperties"] is True
    assert "additionalProperties" not in parameters({"type": "object", "properties": {"a": {}}})
    assert parameters({"type": "object", "additionalProperties": False})["additionalProperties"] is False


def test_a_default_that_its_schema_refuses_is_taken_out() -> None:
    properties = {"a": {"type": "string", "default": None}, "b": {"$ref": "#/$defs/n", "default": 1}}
    schema = {"type": "object", "properties": properties, "$defs": {"n": {"type": "integer"}}}
    ((offer,), _) = offers([Tool("t", input_schema=schema)], Selection())
    assert offer.signature.properties == {"a": {"type": "string"}, "b": {"$ref": "#/$defs/n", "default": 1}}


def test_schemas_of_older_drafts_mean_what_they_meant() -> None:
    pair = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": pair, "kept": {"default": {"items": []}}},
    }
    ((offer,), remarks) = offers([Tool("t", input_schema=schema)], Selection())
    assert offer.signature.properties["pair"] == {
        "type": "array",
        "prefixItems": [{"type": "string"}],
        "items": False,
    }
    assert offer.signature.properties["kept"] == {"default": {"items": []}}
    assert remarks == []


@given(st.text(max_size=3 * LONGEST_ERROR))
@settings(max_examples=100, deadline=None)
def test_a_strangers_text_is_one_bounded_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= LONGEST_ERROR
    assert line == "" or line.isprintable()


MESSAGES = st.lists(
    st.builds(
        lambda identifier, result: {"jsonrpc": "2.0", "id": identifier, "result": {"value": result}},
        st.integers(1, 10**9),
        st.text(max_size=300),
    ),
    max_size=5,
)


@given(MESSAGES, st.lists(st.integers(1, 200), min_size=1, max_size=8), st.booleans())
@settings(max_examples=150, deadline=None)
def test_messages_are_the_same_however_the_bytes_come(
    messages: list[dict[str, Any]], cuts: list[int], reverse: bool
) -> None:
    """Those beyond the limit become errors of their own calls, wherever the id stands."""
    from enginehost_engines.mcp.stdio import TOO_LARGE, _Lines

    limit = 200
    lines = [json.dumps(dict(reversed(one.items())) if reverse else one) for one in messages]
    data = "".join(f"{line}\n" for line in lines).encode()
    reader = _Lines(limit, logging.getLogger("test"))
    found: list[Any] = []
    position, turn = 0, 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        found += reader.feed(data[position : position + size])
        position, turn = position + size, turn + 1
    assert [item.message.id for item in found] == [one["id"] for one in messages]
    for item, line, one in zip(found, lines, messages, strict=True):
        if len(line) > limit:
            assert item.message.error.code == TOO_LARGE
        else:
            assert item.message.result == one["result"]


def test_no_line_grows_beyond_the_limit_in_memory() -> None:
    from enginehost_engines.mcp.stdio import _Lines

    reader = _Lines(1000, logging.getLogger("test"))
    for _ in range(1000):
        assert reader.feed(b"x" * 10_000) == []
        assert sum(map(len, reader._parts)) <= 11_000


@given(st.floats(0.1, 3600), st.integers(1, 30))
@settings(max_examples=50, deadline=None)
def test_pauses_grow_to_the_longest_and_start_anew_after_a_steady_session(
    longest: float, failures: int
) -> None:
    pauses = Pauses(longest)
    full = min(FIRST_PAUSE, longest)
    for _ in range(failures):
        assert full / 2 <= pauses.after(1.0) <= full
        full = min(2 * full, longest)
    assert pauses.after(STEADY_SECONDS) <= FIRST_PAUSE


@pytest.mark.parametrize("text", ["", "not json", '{"a": 1}', "[1, 2]"])
def test_a_text_is_read_as_json_only_where_an_output_schema_says_so(text: str) -> None:
    from mcp_types import CallToolResult, TextContent

    from enginehost_engines.mcp.results import value_of

    result = CallToolResult(content=[TextContent(type="text", text=text)])
    assert value_of("f", result, has_schema=False) == text
    read = value_of("f", result, has_schema=True)
    assert read == (json.loads(text) if text[:1] in ("{", "[") else text)

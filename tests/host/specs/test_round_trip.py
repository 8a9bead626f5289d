"""Every signature, its arguments and its results survive each mapping."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import InvalidArguments, InvalidRequest
from enginehost.names import face_name
from enginehost.signature import Annotations, FunctionSignature
from enginehost.specs import (
    SPEC_KINDS,
    arguments_from,
    arguments_to,
    result_from,
    result_to,
    signature_from_spec,
    to_spec,
)
from enginehost.testing.strategies import SAFE_INTEGER, arguments, instances, json_values, signatures

FREE_KINDS = [kind for kind in SPEC_KINDS if kind != "openai-strict"]
some = settings(max_examples=40, deadline=None)


def accepts(schema: Any, value: Any) -> bool:
    return jsonschema_rs.is_valid(json.loads(json.dumps(schema)), value)


def sent(signature: FunctionSignature, kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """What a model sends, as an object."""
    on_the_wire = arguments_to(signature, kind, values)
    return json.loads(on_the_wire) if isinstance(on_the_wire, str) else on_the_wire


def without_added_nulls(value: Any, original: Any) -> Any:
    """``value`` without the ``null`` of keys that ``original`` does not have."""
    if isinstance(value, dict) and isinstance(original, dict):
        return {
            key: without_added_nulls(item, original.get(key))
            for key, item in value.items()
            if item is not None or key in original
        }
    if isinstance(value, list) and isinstance(original, list) and len(value) == len(original):
        return [without_added_nulls(*pair) for pair in zip(value, original, strict=True)]
    return value


def results(signature: FunctionSignature) -> st.SearchStrategy[Any]:
    """Results of a collected call: whatever fits the schema, and anything where there is none."""
    if signature.result is None:
        return json_values()
    items = instances(signature.result).filter(lambda value: accepts(signature.result, value))
    return st.lists(items, max_size=2) if signature.streaming else items


@pytest.mark.parametrize("kind", SPEC_KINDS)
@some
@given(data=st.data(), signature=signatures())
def test_name_description_and_the_meaning_of_the_parameters_survive(
    kind: str, data: st.DataObject, signature: FunctionSignature
):
    shown = to_spec(signature, kind)
    back = signature_from_spec(json.loads(json.dumps(shown)), kind)
    assert back.name == face_name(signature.name, kind)
    assert back.description == signature.description
    fitting = data.draw(arguments(signature))
    assert accepts(back.parameters, sent(signature, kind, fitting))
    strict = shown.get("function", {}).get("strict")
    # a capability and a strict tool are closed, whatever the function is
    keys = [*signature.properties, *([] if strict or kind == "genesis" else ["other"])]
    values = (
        st.dictionaries(st.sampled_from(keys), json_values(max_leaves=3), max_size=4) if keys else st.just({})
    )
    any_values = data.draw(values)
    on_the_wire = sent(signature, kind, any_values)
    # a strict tool takes null for what is absent
    received = arguments_from(signature, kind, on_the_wire) if strict else any_values
    fits, fits_back = accepts(signature.parameters, received), accepts(back.parameters, on_the_wire)
    if strict and "dependentRequired" in json.dumps(signature.parameters):
        # null is present where it stands for what is absent, so that a need of it counts as met
        assert fits_back or not fits
    else:
        assert fits == fits_back


@some
@given(signatures())
def test_what_mcp_carries_besides_survives(signature: FunctionSignature):
    back = signature_from_spec(to_spec(signature, "mcp"), "mcp")
    assert back.annotations == signature.annotations
    assert (back.result is None) == (signature.result is None)


@some
@given(signatures())
def test_the_tags_survive_the_capability(signature: FunctionSignature):
    assert signature_from_spec(to_spec(signature, "genesis"), "genesis").tags == signature.tags


@pytest.mark.parametrize("kind", FREE_KINDS)
@some
@given(data=st.data(), signature=signatures())
def test_arguments_come_back_unchanged(kind: str, data: st.DataObject, signature: FunctionSignature):
    given_values = data.draw(arguments(signature))
    assert arguments_from(signature, kind, arguments_to(signature, kind, given_values)) == given_values


@settings(max_examples=150, deadline=None)
@given(data=st.data(), signature=signatures(compositions=False))
def test_arguments_come_back_from_a_strict_tool(data: st.DataObject, signature: FunctionSignature):
    given_values = data.draw(arguments(signature))
    function = to_spec(signature, "openai-strict")["function"]
    on_the_wire = sent(signature, "openai-strict", given_values)
    if function["strict"] and "additionalProperties" not in str(signature.parameters):
        assert accepts(function["parameters"], on_the_wire)
    back = arguments_from(signature, "openai-strict", on_the_wire)
    assert without_added_nulls(back, given_values) == given_values
    if function["strict"]:
        assert accepts(signature.parameters, back)


@pytest.mark.parametrize("kind", SPEC_KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), signature=signatures())
def test_results_come_back_unchanged(kind: str, data: st.DataObject, signature: FunctionSignature):
    value = data.draw(results(signature))
    packed = result_to(signature, kind, value)
    assert result_from(signature, kind, json.loads(json.dumps(packed))) == value


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("text", ["", "5", "null", '"quoted"', "[1", "NaN", "line\nline", "[" * 100_000])
def test_text_that_reads_as_json_stays_text(kind: str, text: str):
    signature = FunctionSignature("f")
    assert result_from(signature, kind, result_to(signature, kind, text)) == text


@settings(max_examples=60, deadline=None)
@given(data=st.data(), signature=signatures())
def test_a_structured_result_fits_the_output_schema(data: st.DataObject, signature: FunctionSignature):
    if signature.result is None:
        return
    value = data.draw(results(signature))
    shown = to_spec(signature, "mcp")
    assert accepts(shown["outputSchema"], result_to(signature, "mcp", value))
    back = signature_from_spec(shown, "mcp")
    assert back.result is not None
    assert accepts(back.result, value)


def test_a_recursive_result_keeps_its_references_inside_the_wrapper():
    tree = {"type": "array", "items": {"$ref": "#"}}
    signature = FunctionSignature("f", result=tree)
    shown = to_spec(signature, "mcp")["outputSchema"]
    assert shown["properties"]["result"] == {"type": "array", "items": {"$ref": "#/properties/result"}}
    assert signature_from_spec(to_spec(signature, "mcp"), "mcp").result == tree


PARAMETERS = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "note": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
        "größe": {"type": "number"},
        "point": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                  "required": ["x"]},
        "shape": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]},
    },
    "required": ["count"],
    "$defs": {
        "Circle": {"type": "object", "required": ["radius"], "additionalProperties": False,
                   "properties": {"radius": {"type": "integer"}, "fill": {"type": "string"}}},
        "Square": {"type": "object", "required": ["side"], "additionalProperties": False,
                   "properties": {"side": {"type": "integer"}, "fill": {"type": "string"}}},
    },
}  # fmt: skip
SIGNATURE = FunctionSignature("f", parameters=PARAMETERS)


def test_a_null_stands_for_an_absent_argument_unless_it_is_a_value():
    received = {"count": 1, "note": None, "maybe": None, "point": {"x": 1, "y": None}}
    assert arguments_from(SIGNATURE, "openai-strict", json.dumps(received)) == {
        "count": 1,
        "maybe": None,
        "point": {"x": 1},
    }


def test_a_null_for_a_required_argument_stays_for_the_validator_to_see():
    assert arguments_from(SIGNATURE, "openai-strict", '{"count":null}') == {"count": None}


def test_a_null_goes_inside_the_branch_that_the_value_belongs_to():
    received = {"count": 1, "shape": {"side": 2.0, "fill": None}}
    assert arguments_from(SIGNATURE, "openai-strict", received) == {"count": 1, "shape": {"side": 2}}


def test_only_strict_tools_lose_nulls():
    assert arguments_from(SIGNATURE, "openai", '{"count":1,"note":null}') == {"count": 1, "note": None}


@pytest.mark.parametrize("kind", SPEC_KINDS)
def test_a_whole_float_becomes_an_integer_where_an_integer_is_asked(kind: str):
    restored = arguments_from(SIGNATURE, kind, {"count": 3.0, "note": "x"})
    assert type(restored["count"]) is int
    free = FunctionSignature("f", parameters={"type": "object", "properties": {"a": {"type": "number"}}})
    assert type(arguments_from(free, kind, {"a": 3.0})["a"]) is float


@pytest.mark.parametrize("kind", ["anthropic", "bedrock", "gemini"])
def test_a_parameter_is_renamed_where_the_vendor_refuses_its_name(kind: str):
    face = arguments_to(SIGNATURE, kind, {"count": 1, "größe": 2})
    assert isinstance(face, dict)
    (renamed,) = face.keys() - {"count"}
    assert renamed.startswith("grosse_")
    assert arguments_from(SIGNATURE, kind, face) == {"count": 1, "größe": 2}


def test_rules_about_a_renamed_parameter_follow_it():
    parameters = {
        "type": "object",
        "properties": {"ä": {"type": "string"}, "b": {"type": "string"}},
        "dependentRequired": {"ä": ["b"]},
        "anyOf": [{"required": ["ä"]}, {"required": ["b"]}],
    }
    signature = FunctionSignature("f", parameters=parameters)
    back = signature_from_spec(to_spec(signature, "anthropic"), "anthropic")
    (face,) = back.parameters["dependentRequired"]
    assert back.parameters["anyOf"][0] == {"required": [face]}
    assert back.properties[face] == {"type": "string", "title": "ä"}


def test_a_schema_that_points_at_its_own_parameters_keeps_their_names():
    parameters = {"type": "object", "properties": {"ä": {"type": "string"}, "b": {"$ref": "#/properties/ä"}}}
    signature = FunctionSignature("f", parameters=parameters)
    assert to_spec(signature, "anthropic")["input_schema"] == parameters
    assert arguments_to(signature, "anthropic", {"ä": "x"}) == {"ä": "x"}


@pytest.mark.parametrize("kind", SPEC_KINDS)
@pytest.mark.parametrize(
    "text",
    ["{", "{'a': 1}", '{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud800"}', '{"a":' * 100_000, "\udce4", b"\xff"],
    ids=lambda text: ascii(text)[:20],
)
def test_text_that_is_not_json_is_an_invalid_request(kind: str, text: str | bytes):
    with pytest.raises(InvalidRequest, match="the arguments are not JSON: "):
        arguments_from(SIGNATURE, kind, text)


@pytest.mark.parametrize("received", ["[1]", "5", "null", '"x"', [1], 5, None])
def test_arguments_that_are_no_object_are_invalid(received: Any):
    with pytest.raises(InvalidArguments) as caught:
        arguments_from(SIGNATURE, "openai", received)
    assert caught.value.detail["errors"][0]["pointer"] == ""


@pytest.mark.parametrize("text", ["", "  ", b""])
def test_no_text_is_no_arguments(text: str | bytes):
    assert arguments_from(SIGNATURE, "openai", text) == {}


def test_integers_beyond_a_double_stay_exact():
    big = SAFE_INTEGER * 1000 + 7
    assert arguments_from(SIGNATURE, "openai", f'{{"count": {big}}}') == {"count": big}


def test_arguments_nested_without_end_are_an_invalid_request():
    parameters = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    nested: dict[str, Any] = {}
    for _ in range(5_000):
        nested = {"next": nested}
    with pytest.raises(InvalidRequest):
        arguments_from(FunctionSignature("f", parameters=parameters), "gemini", nested)


def test_a_description_that_ends_like_a_note_is_not_taken_for_one():
    signature = FunctionSignature("f", 'Mind this.\n(JSON Schema: {"not":{}})')
    for kind in SPEC_KINDS:
        back = signature_from_spec(to_spec(signature, kind), kind)
        assert back.description == signature.description
        assert "not" not in back.parameters


def test_an_older_mcp_tool_reads_too():
    tool = {
        "name": "t",
        "inputSchema": {"type": "object"},
        "annotations": {"title": "T", "readOnlyHint": True},
    }
    assert signature_from_spec(tool, "mcp").annotations == Annotations(title="T", read_only=True)


BROKEN = [
    ("openai", {}),
    ("openai", {"function": []}),
    ("openai", {"function": {"name": 5}}),
    ("bedrock", {"toolSpec": {"name": "f", "inputSchema": {}}}),
    ("anthropic", {"name": "f"}),
    ("gemini", {"name": "f", "parametersJsonSchema": 3}),
    ("mcp", {"name": "f", "inputSchema": []}),
    ("genesis", {"name": "f", "capabilities": "math"}),
    ("json-schema", {"type": "object"}),
]


@pytest.mark.parametrize(("kind", "spec"), BROKEN)
def test_what_is_no_tool_is_an_invalid_request(kind: str, spec: dict[str, Any]):
    with pytest.raises(InvalidRequest):
        signature_from_spec(spec, kind)


@pytest.mark.parametrize(
    ("kind", "packed"), [("mcp", {}), ("mcp", 5), ("bedrock", []), ("bedrock", [{}]), ("gemini", {"x": 1}),
                         ("openai", 5), ("genesis", "{"), ("genesis", None)]
)  # fmt: skip
def test_what_is_no_result_is_an_invalid_request(kind: str, packed: Any):
    with pytest.raises(InvalidRequest):
        result_from(FunctionSignature("f"), kind, packed)


RECURSIVE = {
    "type": "object",
    "properties": {"v": {"$ref": "#/$defs/t"}},
    "$defs": {
        "t": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"k": {"$ref": "#/$defs/t"}, "n": {"type": "integer"}},
                    "required": [name],
                }
                for name in ("x", "y")
            ]
        }
    },
}


@pytest.mark.parametrize("kind", ["openai", "openai-strict"])
def test_a_schema_that_refers_to_itself_is_followed_however_deep_the_arguments(
    kind: str, grows_evenly: Any
) -> None:
    signature = FunctionSignature("f", parameters=RECURSIVE)

    def nested(depth: int, leaf: dict[str, Any], beside: dict[str, Any]) -> Any:
        for _ in range(depth):
            leaf = {"k": leaf, **beside}
        return {"v": leaf}

    def prepare(depth: int) -> Callable[[], object]:
        arguments = nested(depth, {"z": 1.0}, {})
        return lambda: arguments_from(signature, kind, arguments)

    grows_evenly(prepare, 12, 120)
    assert arguments_from(signature, kind, nested(100, {"z": 1.0}, {})) == nested(100, {"z": 1.0}, {})
    sent, meant = ({"n": number, "y": 1} for number in (2.0, 2))
    found = arguments_from(signature, kind, nested(100, sent, sent))
    assert json.dumps(found) == json.dumps(nested(100, meant, meant))

"""How a schema becomes strict, case by case, and which ones cannot."""

from typing import Any

import pytest

from enginehost.signature import FunctionSignature
from enginehost.specs import signature_from_spec, to_spec


def strict(schema: dict[str, Any], *, required: bool = True) -> Any:
    """The strict form of one parameter, or ``None`` where the tool is not strict."""
    parameters = {"type": "object", "properties": {"p": schema}} | ({"required": ["p"]} if required else {})
    if "$ref" in str(schema):
        parameters["$defs"] = {
            "E": {"type": "string", "enum": ["a"]},
            "O": {"type": "object", "properties": {"e": {"$ref": "#/$defs/E"}}},
        }
    function = to_spec(FunctionSignature("f", parameters=parameters), "openai-strict")["function"]
    return function["parameters"]["properties"]["p"] if function["strict"] else None


CASES = [
    ({"type": "string"}, {"type": "string"}),
    ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"const": 3}, {"type": "integer", "const": 3}),
    ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
    ({"type": ["string", "integer"], "pattern": "^a"},
     {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "integer"}]}),
    ({"enum": ["a", 1, None]},
     {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}, {"type": "null"}]}),
    ({"oneOf": [{"type": "string"}, {"type": "boolean"}]},
     {"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
    ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    ({"type": "string", "format": "uri"},
     {"type": "string", "description": '(JSON Schema: {"format":"uri"})'}),
    ({"type": "string", "minLength": 1, "description": "Not empty"},
     {"type": "string", "description": 'Not empty\n(JSON Schema: {"minLength":1})'}),
    ({"type": "array", "items": {"type": "number"}, "uniqueItems": True, "minItems": 1},
     {"type": "array", "items": {"type": "number"}, "minItems": 1,
      "description": '(JSON Schema: {"uniqueItems":true})'}),
    ({"$ref": "#/$defs/E"}, {"$ref": "#/$defs/E"}),
    ({"$ref": "#/$defs/E", "description": "One"}, {"anyOf": [{"$ref": "#/$defs/E"}], "description": "One"}),
    ({"type": "object", "properties": {"x": {"type": "integer"}}},
     {"type": "object", "properties": {"x": {"type": ["integer", "null"]}}, "required": ["x"],
      "additionalProperties": False}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), CASES)
def test_a_required_parameter_in_strict_form(schema: dict[str, Any], expected: dict[str, Any]):
    assert strict(schema) == expected


OPTIONAL = [
    ({"type": "string"}, {"type": ["string", "null"]}),
    ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"const": "a"}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"$ref": "#/$defs/O"}, {"anyOf": [{"$ref": "#/$defs/O"}, {"type": "null"}]}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"], "description": "D"},
     {"anyOf": [{"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"],
                 "additionalProperties": False}, {"type": "null"}], "description": "D"}),
    ({"type": "integer", "default": 3},
     {"type": ["integer", "null"], "description": '(JSON Schema: {"default":3})'}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), OPTIONAL)
def test_an_optional_parameter_takes_null(schema: dict[str, Any], expected: dict[str, Any]):
    assert strict(schema, required=False) == expected


NEVER = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}}},
    {"type": "array"},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
    {"allOf": [{"type": "string"}, {"minLength": 1}]},
    {"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]},
    {"type": "array", "items": {"$ref": "#/properties/p"}},
    {"type": "wavelet"},
]


@pytest.mark.parametrize("schema", NEVER)
def test_what_the_subset_cannot_say_makes_the_tool_free(schema: dict[str, Any]):
    assert strict(schema) is None
    parameters = {"type": "object", "properties": {"p": schema}}
    signature = FunctionSignature("f", parameters=parameters)
    function = to_spec(signature, "openai-strict")["function"]
    assert function == to_spec(signature, "openai")["function"] | {"strict": False}


def test_a_schema_over_a_limit_of_the_subset_is_free():
    wide = {f"p{i}": {"type": "string"} for i in range(5_001)}
    values = {"p": {"enum": [f"v{i}" for i in range(1_001)]}}
    long = {"p": {"enum": [f"{i}" * 30 for i in range(300)]}}
    for properties in (wide, values, long):
        signature = FunctionSignature("f", parameters={"type": "object", "properties": properties})
        assert to_spec(signature, "openai-strict")["function"]["strict"] is False


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(("levels", "expected"), [(10, True), (11, False)])
def test_ten_levels_are_strict(levels: int, expected: bool):
    signature = FunctionSignature("f", parameters=nested(levels))
    assert to_spec(signature, "openai-strict")["function"]["strict"] is expected


def test_parameters_that_refer_to_themselves_are_strict():
    parameters = {"type": "object", "properties": {"child": {"$ref": "#", "description": "Next"}}}
    function = to_spec(FunctionSignature("f", parameters=parameters), "openai-strict")["function"]
    assert function["parameters"]["properties"]["child"] == {
        "anyOf": [{"$ref": "#"}, {"type": "null"}],
        "description": "Next",
    }


def test_the_way_back_has_the_keywords_and_the_optional_ones_again():
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 1}, "b": {"type": "integer", "default": 3}},
        "required": ["a"],
    }
    back = signature_from_spec(
        to_spec(FunctionSignature("f", "D", parameters), "openai-strict"), "openai-strict"
    )
    assert back.description == "D"
    assert back.required == ("a",)
    assert back.properties["a"] == {"type": "string", "minLength": 1}
    assert back.properties["b"] == {"type": ["integer", "null"], "default": 3}

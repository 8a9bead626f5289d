"""The vendors' own types accept what we show, for every signature there is."""

import re
from typing import Any

import botocore.session
import jsonschema_rs
import pytest
from anthropic.types import ToolParam
from botocore.validate import ParamValidator
from google.genai.types import FunctionDeclaration, FunctionResponse
from hypothesis import given, settings
from mcp.types import CallToolResult, Tool
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from enginehost.signature import FunctionSignature
from enginehost.specs import result_to, to_spec
from enginehost.testing.strategies import signatures

STRICT_KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref",
    "$defs", "title", "description", "pattern", "format", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
}  # fmt: skip
TOP_LEVEL_REFUSED = {"oneOf", "anyOf", "allOf", "not", "enum"}
CHAT = TypeAdapter(ChatCompletionToolParam)
RESPONSES = TypeAdapter(FunctionToolParam)
ANTHROPIC = TypeAdapter(ToolParam)
FACE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

many = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def converse():
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape


def all_schemas(schema: Any):
    """Every schema in a document, told from maps of names by where it stands."""
    if isinstance(schema, bool):
        yield schema
    elif isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                for sub in value.values():
                    yield from all_schemas(sub)
            elif key in ("items", "not") or (key == "additionalProperties" and isinstance(value, dict)):
                yield from all_schemas(value)
            elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
                for sub in value:
                    yield from all_schemas(sub)


def is_strict(schema: Any) -> bool:
    """OpenAI's rules for a strict schema, told once more."""
    for sub in all_schemas(schema):
        assert isinstance(sub, dict)
        assert sub.keys() <= STRICT_KEYWORDS
        if "$ref" in sub:
            assert sub.keys() == {"$ref"}
        else:
            assert "type" in sub or "anyOf" in sub
        if "object" in (sub.get("type") or ()):
            assert sub["additionalProperties"] is False
            assert sub["required"] == list(sub["properties"])
        if "array" in (sub.get("type") or ()):
            assert "items" in sub
    return schema["additionalProperties"] is False


def takes_as_tool(parameters: dict[str, Any]) -> bool:
    """What OpenAI asks of any function's parameters."""
    jsonschema_rs.meta.validate(parameters)
    assert parameters["type"] == "object"
    assert not TOP_LEVEL_REFUSED & parameters.keys()
    for sub in all_schemas(parameters):
        if isinstance(sub, dict) and "array" in (sub.get("type") or ()):
            assert "items" in sub
        if isinstance(sub, dict):
            assert not any(isinstance(value, bool) for value in sub.get("properties", {}).values())
    return True


@many
@given(signatures())
def test_openai_takes_every_chat_tool(signature: FunctionSignature):
    shown = to_spec(signature, "openai")
    assert CHAT.validate_python(shown, strict=True) == shown
    assert FACE_NAME.fullmatch(shown["function"]["name"])
    assert takes_as_tool(shown["function"]["parameters"])


@many
@given(signatures())
def test_openai_takes_every_strict_tool(signature: FunctionSignature):
    shown = to_spec(signature, "openai-strict")
    assert CHAT.validate_python(shown, strict=True) == shown
    function = shown["function"]
    check = is_strict if function["strict"] else takes_as_tool
    assert check(function["parameters"])
    jsonschema_rs.meta.validate(function["parameters"])


@many
@given(signatures())
def test_openai_takes_every_responses_tool(signature: FunctionSignature):
    shown = to_spec(signature, "openai-responses")
    assert RESPONSES.validate_python(shown) == shown
    assert shown["strict"] is False
    assert takes_as_tool(shown["parameters"])


@many
@given(signatures())
def test_anthropic_takes_every_tool(signature: FunctionSignature):
    shown = to_spec(signature, "anthropic")
    assert ANTHROPIC.validate_python(shown) == shown
    assert FACE_NAME.fullmatch(shown["name"])
    assert takes_as_tool(shown["input_schema"])
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in shown["input_schema"]["properties"])


@many
@given(signature=signatures())
def test_bedrock_takes_every_tool(signature: FunctionSignature, converse):
    shown = to_spec(signature, "bedrock")
    request = {"modelId": "m", "toolConfig": {"tools": [shown]}}
    assert not ParamValidator().validate(request, converse).has_errors()
    assert FACE_NAME.fullmatch(shown["toolSpec"]["name"])
    schema = shown["toolSpec"]["inputSchema"]["json"]
    assert takes_as_tool(schema)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in schema["properties"])


@many
@given(signatures())
def test_gemini_takes_every_declaration(signature: FunctionSignature):
    shown = to_spec(signature, "gemini")
    declaration = FunctionDeclaration.model_validate(shown)
    assert declaration.model_dump(by_alias=True, exclude_none=True, exclude_unset=True) == shown
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", shown["name"])
    assert takes_as_tool(shown.get("parametersJsonSchema", {"type": "object"}))


@many
@given(signatures())
def test_mcp_takes_every_tool(signature: FunctionSignature):
    shown = to_spec(signature, "mcp")
    tool = Tool.model_validate(shown)
    assert tool.model_dump(by_alias=True, exclude_unset=True, mode="json") == shown
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", shown["name"])
    assert shown.get("outputSchema", {"type": "object"})["type"] == "object"
    jsonschema_rs.meta.validate(shown["inputSchema"])
    jsonschema_rs.meta.validate(shown.get("outputSchema", {}))


@pytest.mark.parametrize("value", [None, 1, "text", [1], {"a": 1}])
def test_vendors_take_a_packed_result(value: Any, converse):
    signature = FunctionSignature("f")
    block = {"toolResult": {"toolUseId": "1", "content": result_to(signature, "bedrock", value)}}
    request = {"modelId": "m", "messages": [{"role": "user", "content": [block]}]}
    assert not ParamValidator().validate(request, converse).has_errors()
    assert isinstance(block["toolResult"]["content"][0]["json"], dict)
    FunctionResponse(name="f", response=result_to(signature, "gemini", value))
    CallToolResult(content=[], structured_content=result_to(signature, "mcp", value))
    assert isinstance(result_to(signature, "openai", value), str)


def test_a_description_that_a_vendor_demands_is_never_empty():
    assert to_spec(FunctionSignature("f"), "bedrock")["toolSpec"]["description"] == "The function f."
    assert to_spec(FunctionSignature("f"), "gemini")["description"] == "The function f."
    assert "description" not in to_spec(FunctionSignature("f"), "openai")["function"]


@pytest.mark.parametrize("kind", ["openai", "openai-strict"])
def test_a_description_is_shortened_to_what_chat_completions_takes(kind: str):
    signature = FunctionSignature("f", "word " * 400)
    description = to_spec(signature, kind)["function"]["description"]
    assert len(description) <= 1024
    assert description.startswith("word word")
    assert description.endswith("…")
    assert to_spec(signature, "openai-responses")["description"] == signature.description


def test_a_rule_over_all_parameters_is_told_in_the_description():
    either = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    parameters = {"type": "object", "properties": {"a": {}, "b": {}}, **either}
    shown = to_spec(FunctionSignature("f", "Does it.", parameters), "anthropic")
    assert shown["input_schema"] == {"type": "object", "properties": {"a": {}, "b": {}}}
    assert shown["description"] == (
        'Does it.\n(JSON Schema: {"anyOf":[{"required":["a"]},{"required":["b"]}]})'
    )


def test_a_rule_too_long_for_the_description_leaves_the_prose_whole():
    long = {"anyOf": [{"required": ["a"], "title": "x" * 600}]}
    signature = FunctionSignature("f", "Does it.", {"type": "object", "properties": {"a": {}}, **long})
    assert to_spec(signature, "openai")["function"]["description"] == "Does it."

"""What others wrote down about their tools comes out of one signature."""

import json

from enginehost.signature import Annotations, FunctionSignature
from enginehost.specs import signature_from_spec, to_spec

LAT = {"type": "string", "description": "Latitude"}
LON = {"type": "string", "description": "Longitude"}
COORDINATES = {"type": "object", "properties": {"lat": LAT, "lon": LON}, "required": ["lat", "lon"]}
CURRENT_WEATHER = FunctionSignature("current_weather", "The weather now", COORDINATES)

GET_WEATHER_INFO = (
    '{"type":"function","function":{"name":"get_weather_info","description":"Specialized agent for '
    'weather, meteorology, climate. Send natural language queries and receive responses.",'
    '"parameters":{"type":"object","properties":{"message":{"type":"string","description":'
    '"Natural language query or request to send to the agent"}},"required":["message"]}}}'
)


def test_the_weather_tool_of_the_genesis_overview_comes_out_to_the_letter():
    signature = FunctionSignature(
        name="get_weather_info",
        description="Specialized agent for weather, meteorology, climate. "
        "Send natural language queries and receive responses.",
        parameters={
            "required": ["message"],
            "properties": {
                "message": {
                    "type": "string",
                    "description": "Natural language query or request to send to the agent",
                }
            },
            "type": "object",
        },
    )
    assert json.dumps(to_spec(signature, "openai"), separators=(",", ":")) == GET_WEATHER_INFO


def test_the_openai_tool_has_the_functions_own_name_and_arguments_instead_of_id_and_map():
    assert to_spec(CURRENT_WEATHER, "openai") == {
        "type": "function",
        "function": {
            "name": "current_weather",
            "description": "The weather now",
            "parameters": COORDINATES,
        },
    }


def test_the_bedrock_tool_has_the_functions_name_instead_of_the_engine_id():
    assert to_spec(CURRENT_WEATHER, "bedrock") == {
        "toolSpec": {
            "name": "current_weather",
            "description": "The weather now",
            "inputSchema": {"json": COORDINATES},
        }
    }


def test_required_is_one_flat_list_inside_the_parameters():
    parameters = to_spec(CURRENT_WEATHER, "json-schema")
    assert parameters["required"] == ["lat", "lon"]
    assert list(parameters) == ["$schema", "title", "description", "type", "properties", "required"]


def test_a_function_without_parameters_takes_an_empty_object():
    shown = to_spec(FunctionSignature("now"), "openai")
    assert shown["function"] == {"name": "now", "parameters": {"type": "object", "properties": {}}}


def test_the_capability_carries_the_members_that_genesis_writes():
    signature = FunctionSignature("add", "Adds", {"type": "object", "properties": {"a": {}}}, tags=("math",))
    assert to_spec(signature, "genesis") == {
        "name": "add",
        "description": "Adds",
        "parameter_schema": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        "capabilities": ["math"],
        "performance_metrics": {},
        "security_requirements": {},
        "classification": {},
    }


def test_the_capability_says_whether_it_streams_and_what_a_call_does():
    said = Annotations(title="Ticks", read_only=True)
    signature = FunctionSignature("tick", annotations=said, streaming=True)
    shown = to_spec(signature, "genesis")
    assert shown["classification"] == {
        "streaming": True,
        "annotations": {"title": "Ticks", "read_only": True},
    }
    assert signature_from_spec(shown, "genesis").annotations == said
    assert signature_from_spec(shown, "genesis").streaming


def test_the_capability_of_a_function_with_free_keys_stays_open():
    open_ended = {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}
    shown = to_spec(FunctionSignature("tag", parameters=open_ended), "genesis")
    assert shown["parameter_schema"] == open_ended


def test_the_mcp_tool_carries_title_hints_and_the_schema_of_the_result():
    signature = FunctionSignature(
        "drop",
        "Drops a table",
        {"type": "object", "properties": {"table": {"type": "string"}}},
        result={"type": "integer"},
        annotations=Annotations(title="Drop", read_only=False, destructive=True),
    )
    assert to_spec(signature, "mcp") == {
        "name": "drop",
        "title": "Drop",
        "description": "Drops a table",
        "inputSchema": {"type": "object", "properties": {"table": {"type": "string"}}},
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "integer"}},
            "required": ["result"],
            "x-fastmcp-wrap-result": True,
        },
        "annotations": {"title": "Drop", "readOnlyHint": False, "destructiveHint": True},
    }


def test_an_object_result_is_its_own_mcp_output_schema():
    result = {
        "$ref": "#/$defs/P",
        "$defs": {
            "P": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}},
            "X": {"type": "number"},
        },
    }
    shown = to_spec(FunctionSignature("p", result=result), "mcp")["outputSchema"]
    assert shown["type"] == "object"
    assert shown["properties"] == {"x": {"$ref": "#/$defs/X"}}
    assert shown["$defs"]["X"] == {"type": "number"}

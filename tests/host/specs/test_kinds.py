"""The table of kinds: what is in it, what plugins add, what it costs."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from enginehost.engine import AbstractFunctionEngine, EngineContext
from enginehost.errors import ConfigError, InvalidRequest
from enginehost.names import face_name
from enginehost.signature import FunctionSignature
from enginehost.specs import (
    SPEC_KINDS,
    arguments_from,
    arguments_to,
    register_spec_kind,
    result_to,
    signature_from_spec,
    spec_kinds,
    to_spec,
)

SIMPLE = FunctionSignature(
    "add",
    "Adds two numbers",
    {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "One"},
            "b": {"type": "number", "description": "Other"},
        },
        "required": ["a", "b"],
    },
)


def test_the_kinds_are_those_that_the_faces_name():
    assert SPEC_KINDS == (
        "json-schema", "openai", "openai-strict", "openai-responses", "bedrock", "anthropic", "gemini", "mcp",
        "genesis",
    )  # fmt: skip


@pytest.mark.parametrize("kind", SPEC_KINDS)
def test_a_shown_name_can_be_given(kind: str):
    assert signature_from_spec(to_spec(SIMPLE, kind, name="shown"), kind).name == "shown"


@pytest.mark.parametrize("kind", SPEC_KINDS)
def test_a_name_that_does_not_fit_is_mapped(kind: str):
    name = "größe.über\0alles" * 30
    assert signature_from_spec(to_spec(FunctionSignature(name), kind), kind).name == face_name(name, kind)


@pytest.mark.parametrize("kind", SPEC_KINDS)
def test_a_spec_belongs_to_whoever_asked_for_it(kind: str):
    frozen = copy.deepcopy(dict(SIMPLE.parameters))
    shown = to_spec(SIMPLE, kind)

    def spoil(value: object) -> None:
        if isinstance(value, dict):
            for item in list(value.values()):
                spoil(item)
            value["spoilt"] = True
        elif isinstance(value, list):
            value.append("spoilt")

    spoil(shown)
    assert SIMPLE.parameters == frozen
    assert "spoilt" not in json.dumps(to_spec(SIMPLE, kind))


@pytest.mark.parametrize("kind", SPEC_KINDS)
def test_any_kind_of_mapping_becomes_plain_json(kind: str):
    parameters = MappingProxyType(
        {
            "type": "object",
            "properties": MappingProxyType({"a": MappingProxyType({"enum": (1, 2)})}),
            "required": ("a",),
        }
    )
    shown = to_spec(FunctionSignature("f", parameters=parameters), kind)
    assert json.loads(json.dumps(shown)) == shown


@pytest.mark.parametrize("kind", SPEC_KINDS)
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": True, "b": False}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"x": {"type": "string"}}}}},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"$ref": "https://example.org/schema.json"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        {"type": "object"},
        {"type": "object", "properties": {}, "required": []},
    ],
)
def test_an_odd_schema_is_shown_and_not_refused(kind: str, parameters: dict[str, object]):
    signature = FunctionSignature("f", parameters=parameters)
    assert json.dumps(to_spec(signature, kind))
    assert arguments_from(signature, kind, {"a": 1.0}) == {"a": 1.0}


def test_an_unknown_kind_is_an_invalid_request_that_names_the_kinds():
    for call in (
        lambda: to_spec(SIMPLE, "opnai"),
        lambda: signature_from_spec({}, "opnai"),
        lambda: arguments_from(SIMPLE, "opnai", {}),
        lambda: result_to(SIMPLE, "opnai", 1),
    ):
        with pytest.raises(InvalidRequest) as caught:
            call()
        assert caught.value.detail["kinds"] == list(SPEC_KINDS)


def test_a_plugin_adds_a_kind_and_takes_it_out_again():
    undo = register_spec_kind("shout", lambda signature, name: {"NAME": name.upper()})
    try:
        assert spec_kinds() == (*SPEC_KINDS, "shout")
        assert to_spec(FunctionSignature("a b"), "shout")["NAME"].startswith("A_B_")
        assert arguments_from(SIMPLE, "shout", '{"a": 1}') == {"a": 1}
        assert arguments_to(SIMPLE, "shout", {"a": 1}) == {"a": 1}
        assert result_to(SIMPLE, "shout", 5) == 5
        with pytest.raises(InvalidRequest):
            signature_from_spec({}, "shout")
        with pytest.raises(ConfigError) as caught:
            register_spec_kind("shout", lambda signature, name: {})
        assert caught.value.reason == "duplicate-spec-kind"
    finally:
        undo()
    assert spec_kinds() == SPEC_KINDS


def test_no_plugin_takes_over_a_kind_that_is_ours():
    with pytest.raises(ConfigError):
        register_spec_kind("openai", lambda signature, name: {})


def test_an_engines_old_methods_give_the_same_tools():
    class Adder(AbstractFunctionEngine):
        def execute(self, parameters):
            return parameters["a"] + parameters["b"]

    engine = Adder(EngineContext("adder", signature=SIMPLE))
    assert engine.build_openai_function_engine_tool_map() == to_spec(SIMPLE, "openai")
    assert engine.build_bedrock_tool_spec() == to_spec(SIMPLE, "bedrock")


def test_specs_need_nothing_outside_the_standard_library_at_import():
    code = (
        "import sys, enginehost.specs\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env={
        "PYTHONPATH": str(next(p for p in __import__("enginehost").__path__)).removesuffix("enginehost")
    }, check=True)  # fmt: skip
    assert set(run.stdout.split()) <= {"enginehost", "__main__"}


@pytest.mark.parametrize("kind", SPEC_KINDS)
def test_each_parameter_costs_a_spec_the_same(kind: str, grows_evenly: Any):
    def prepare(many: int) -> Callable[[], object]:
        properties = {f"name {n}": {"type": "number", "description": "One"} for n in range(many)}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        signature = FunctionSignature("many", "Takes many.", parameters)
        return lambda: to_spec(signature, kind)

    grows_evenly(prepare, 100, 1_600)

"""``FUNCTION_BIND``: parameters that the host fills in. Callers neither see them nor send them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from enginehost import Call, EngineContext, Function, FunctionSignature, Host, HostSettings
from enginehost.caller import Caller
from enginehost.catalog import EngineRecord
from enginehost.cli import main
from enginehost.databus.capability import capability_of
from enginehost.databus.identity import Identity
from enginehost.engine import AbstractFunctionEngine
from enginehost.errors import InvalidArguments
from enginehost.serve import HttpServer
from enginehost.signature import without_parameters
from enginehost.specs import SPEC_KINDS, to_spec

BOUND = "zq_tenant"
"""A name that stands nowhere else."""
LIST = [
    {"name": "city", "type": "string", "required": True},
    {"name": BOUND, "type": "string", "required": True, "description": f"Who pays, the {BOUND}"},
]
PROPERTIES = {"city": {"type": "string"}, BOUND: {"type": "string"}}
OPEN = {"type": "object", "properties": PROPERTIES, "required": ["city", BOUND], "additionalProperties": True}
RULES = {
    "type": "object",
    "properties": PROPERTIES,
    "required": [BOUND],
    "dependentRequired": {"city": [BOUND], BOUND: ["city"]},
    "dependentSchemas": {"city": {"required": [BOUND]}, BOUND: {"required": ["city"]}},
    "propertyNames": {"enum": ["city", BOUND]},
    "allOf": [{"properties": {BOUND: {"minLength": 3}}}],
    "anyOf": [{"required": [BOUND]}, {"required": ["city"]}],
    "oneOf": [{"properties": {BOUND: {"const": "acme"}}}, {"properties": {BOUND: {"const": "other"}}}],
    "not": {"properties": {BOUND: {"const": "nobody"}}, "required": [BOUND]},
    "if": {"properties": {BOUND: {"const": "other"}}, "required": [BOUND]},
    "then": {"required": ["city", BOUND]},
    "examples": [{"city": "Berlin", BOUND: "acme"}],
}
BEHIND = {
    "$ref": "#/$defs/order",
    "allOf": [{"$ref": "#/$defs/payer"}],
    "$defs": {
        "order": {
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/city"}},
            "anyOf": [{"$ref": "#/$defs/payer"}, {"$ref": "#"}],
        },
        "payer": {"properties": {BOUND: {"type": "string"}}, "required": [BOUND]},
        "city": {"type": "string"},
    },
}
forms = pytest.mark.parametrize(
    "parameters", [LIST, OPEN, RULES, BEHIND], ids=["a list", "open", "rules", "behind references"]
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: Any) -> Path:
    """One function that gives back what it got; its second parameter is bound."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "smss"
    made.mkdir()
    (made / "f.py").write_text("def f(**given): return given\n")
    (made / "f.smss").write_text(
        "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"
        f"FUNCTION_PARAMETERS = {json.dumps(parameters)}\nFUNCTION_BIND = {json.dumps({BOUND: 'acme'})}\n"
    )
    return made


@pytest.fixture
async def host(folder: Path) -> AsyncIterator[Host]:
    async with Host(folder, None, settings=HostSettings()) as running:
        yield running


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx2.AsyncClient]:
    server = HttpServer(host, "127.0.0.1:0")
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            yield client
    finally:
        await server.stop()


@pytest.fixture
def cli(folder: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    """``cli("describe", "f")``: the exit code, and what was written to both outputs."""

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capfd.readouterr()
        return int(ended.value.code or 0), captured.out + captured.err

    return run


@forms
async def test_no_spec_names_a_bound_parameter(host: Host) -> None:
    signature = host.entry("f").signature
    for kind in SPEC_KINDS:
        told = json.dumps(to_spec(signature, kind))
        assert BOUND not in told, kind
        assert "city" in told, kind


@forms
async def test_no_answer_over_http_names_a_bound_parameter(client: httpx2.AsyncClient) -> None:
    pages = ["/openapi.json", "/v1/functions", "/v1/functions/f", "/v1/engines", "/api/function-f/definition"]
    pages += [f"/v1/{page}?format={kind}" for kind in SPEC_KINDS for page in ("tools", "functions/f")]
    for page in pages:
        answer = await client.get(page)
        assert answer.status_code == 200, page
        assert BOUND not in answer.text, page


@forms
def test_no_page_of_the_command_line_names_a_bound_parameter(cli: Any) -> None:
    for words in (
        ("describe", "f"),
        ("describe", "f", "--json"),
        ("list", "--json"),
        *(("tools", "--as", kind) for kind in SPEC_KINDS),
    ):
        code, told = cli(*words)
        assert code == 0, told
        assert BOUND not in told, words


@forms
async def test_no_function_capability_names_a_bound_parameter(host: Host) -> None:
    made = capability_of(host.entry("f").signature, Identity(None), "s", 7, public=True)
    told = json.dumps(asdict(made), default=str)
    assert BOUND not in told
    assert "city" in made.parameter_schema


@forms
async def test_the_function_gets_the_bound_value(host: Host, client: httpx2.AsyncClient) -> None:
    wanted = {"city": "Berlin", BOUND: "acme"}
    assert await host.call("f", {"city": "Berlin"}) == wanted
    answer = await client.post("/v1/functions/f", json={"city": "Berlin"})
    assert answer.json() == {"result": wanted}


@forms
async def test_a_caller_who_sends_a_bound_parameter_is_refused(
    host: Host, client: httpx2.AsyncClient
) -> None:
    sent = {"city": "Berlin", BOUND: "mine"}
    with pytest.raises(InvalidArguments, match=f'"{BOUND}" is not '):
        await host.call("f", sent)
    with pytest.raises(InvalidArguments, match=f'"{BOUND}" is not '):
        await host.call_json(host.new_call("f", Caller("x")), sent, coerce=True)
    answer = await client.post("/v1/functions/f", json=sent)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_arguments")
    assert answer.json()["errors"][0]["allowed"] == ["city"]


@forms
def test_a_bound_parameter_on_the_command_line_is_refused(cli: Any) -> None:
    for words in (("city=Berlin", f"{BOUND}=mine"), ("--json", json.dumps({"city": "Berlin", BOUND: "x"}))):
        code, told = cli("call", "f", *words)
        assert code == 4, told
        assert BOUND in told
    code, told = cli("call", "f", "city=Berlin")
    assert (code, json.loads(told)) == (0, {"city": "Berlin", BOUND: "acme"})


async def test_an_engine_that_describes_its_parameters_itself_shows_no_bound_one() -> None:
    class Describes(AbstractFunctionEngine):
        def functions(self) -> list[Function]:
            described = {**OPEN, "properties": {"city": {}, BOUND: {"default": "mine"}}}
            return [self.context.function(self.answer, parameters=described)]

        async def answer(self, arguments: dict[str, Any], call: Call) -> Any:
            return arguments

    context = EngineContext("e", signature=FunctionSignature("f"), bind={BOUND: "acme"})
    async with Host(None, None, settings=HostSettings()) as host:
        await host.add_engine(EngineRecord("e", "Test"), Describes(context))
        assert BOUND not in json.dumps(to_spec(host.entry("f").signature, "openai"))
        assert await host.call("f", {"city": "Berlin"}) == {"city": "Berlin", BOUND: "acme"}
        with pytest.raises(InvalidArguments, match=BOUND):
            await host.call("f", {"city": "Berlin", BOUND: "mine"})


NAMES = st.sampled_from(["a", "b", "c"])
LEAF = st.sampled_from([{}, {"const": 1}, {"const": 2}, {"type": "integer"}])
RULE = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(NAMES, LEAF)}),
        st.fixed_dictionaries({"required": st.lists(NAMES, unique=True)}),
        st.fixed_dictionaries({"dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True))}),
    ),
    lambda inner: st.one_of(
        st.sampled_from(["allOf", "anyOf"]).flatmap(
            lambda word: st.fixed_dictionaries({word: st.lists(inner, min_size=1, max_size=3)})
        ),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
        st.fixed_dictionaries({"dependentSchemas": st.dictionaries(NAMES, inner)}),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(RULE, st.dictionaries(NAMES, st.sampled_from([1, 2, "x"])))
def test_a_schema_without_a_parameter_never_names_it_and_is_one(
    rule: dict[str, Any], instance: dict[str, Any]
) -> None:
    schema = {"type": "object", **rule}
    kept = without_parameters(schema, {"a"})
    assert '"a"' not in json.dumps(kept)
    Draft202012Validator(kept)
    assert without_parameters(kept, {"a"}) == kept
    if '"a"' not in json.dumps(schema):
        fits = [Draft202012Validator(one).is_valid(instance) for one in (schema, kept)]
        assert fits[0] == fits[1]

"""A model reads of errors in the names that its tools have; who asks without a kind learns of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.names import PARAMETER_RULES
from enginehost.signature import FunctionSignature
from enginehost.specs import arguments_from, errors_to, to_spec
from enginehost.validation import Validator, closed, summary

OWN = "länge m"
PARAMETERS = {
    "type": "object",
    "properties": {
        OWN: {"type": "number", "minimum": 3},
        "größe": {"type": "object", "properties": {OWN: {"type": "number"}}},
    },
    "required": [OWN],
}


@pytest.fixture
async def tool(served: Any) -> tuple[str, str, str]:
    """The names of function and parameters in an Anthropic tool."""
    await served.add("grün", parameters=PARAMETERS)
    for one in served.host.tools("anthropic"):
        length, size = [*one["input_schema"]["properties"], "", ""][:2]
        if length.startswith("lange"):
            return one["name"], length, size
    raise AssertionError("no such tool")


async def test_a_model_reads_of_its_own_names_only(served: Any, tool: tuple[str, str, str]) -> None:
    name, length, size = tool
    for arguments, pointer, message in (
        ({length: 1}, f"/{length}", f"{name} at /{length}: 1 is less than the minimum of 3"),
        ({}, "", f'{name}: "{length}" is a required property'),
        ({length: 3, size: {OWN: "x"}}, f"/{size}/{OWN}", None),
        (
            {length[:-1]: 3},
            "",
            f'{name}: "{length[:-1]}" is not a parameter (did you mean "{length}"?); '
            f'"{length}" is a required property',
        ),
    ):
        problem = (await served.call(f"{name}?format=anthropic", arguments)).json()
        assert problem["code"] == "invalid_arguments"
        assert problem["errors"][0]["pointer"] == pointer
        assert message is None or problem["detail"] == message
        assert problem["error"]["detail"]["errors"] == problem["errors"]
        told = str(problem).replace(f"/{OWN}", "") if message is None else str(problem)
        assert OWN not in told
        assert "grün" not in told
    allowed = (await served.call(f"{name}?format=anthropic", {"other": 1})).json()["errors"]
    assert next(one["allowed"] for one in allowed if "allowed" in one) == [length, size]


async def test_without_a_kind_a_mapped_name_is_told_for_what_it_is(
    served: Any, tool: tuple[str, str, str]
) -> None:
    name, length, _ = tool
    problem = (await served.call(name, {length: 3})).json()
    assert f'"{length}" is not a parameter (it stands for "{OWN}" in anthropic tools' in problem["detail"]
    assert "?format=anthropic" in problem["detail"]
    assert (await served.call(f"{name}?format=anthropic", {length: 3})).json() == {"result": {OWN: 3}}


async def test_the_function_has_its_mapped_name_in_every_error(served: Any) -> None:
    async def breaking(parameters: dict[str, Any], call: Any) -> Any:
        raise RuntimeError("grün is broken")

    await served.add("grün", breaking)
    name = served.host.face_names("openai").to_face("grün")
    problem = (await served.call(f"{name}?format=openai", {})).json()
    assert problem["detail"] == f"{name} failed: RuntimeError: grün is broken"
    problem = (await served.call(f"{name[:-1]}?format=openai", {})).json()
    assert problem["code"] == "unknown_function"
    assert "grün" not in str(problem)
    events = {"accept": "text/event-stream"}
    problem = (await served.call(f"{name}?format=openai", {"x": 1}, headers=events)).json()
    assert problem["detail"].startswith(f'{name}: "x" is not a parameter')


NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True)


@given(NAMES, st.sampled_from(sorted(PARAMETER_RULES)), st.data())
@settings(max_examples=60, deadline=None)
def test_property_errors_point_where_the_model_wrote(
    names: list[str], kind: str, data: st.DataObject
) -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": names,
    }
    signature = FunctionSignature("f", "", schema)
    spec = to_spec(signature, kind)
    shown = list((spec.get("input_schema") or spec.get("parametersJsonSchema") or
                  spec["toolSpec"]["inputSchema"]["json"])["properties"])  # fmt: skip
    sent = {face: data.draw(st.sampled_from([1, "x"])) for face in shown[1:]}
    arguments = arguments_from(signature, kind, sent)
    errors = errors_to(signature, kind, Validator(closed(schema)).errors(arguments))
    wrong = {"/" + face.replace("~", "~0").replace("/", "~1") for face, value in sent.items() if value == "x"}
    assert {one["pointer"] for one in errors} == {"", *wrong}
    assert summary("f", errors)

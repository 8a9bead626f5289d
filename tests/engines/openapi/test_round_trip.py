"""Property: what a caller gives an operation of a generated document is what the service receives."""

from __future__ import annotations

import asyncio
import json
import string
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate

from enginehost import Host, HostSettings
from enginehost.importing import key_line, literal
from enginehost.interpret import interpret

WORD = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=8)
WIRE = st.text("abcXYZ019_-.[]$:/é ", min_size=1, max_size=8).filter(lambda name: name == name.strip())
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
HEADER = PLAIN.map(str.strip)
SEGMENT = st.text(string.ascii_letters + "é ~!@", min_size=1, max_size=8)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def cases(draw: Any) -> dict[str, Any]:
    """Wire names with their values, by place."""
    named = lambda names, values, most: st.dictionaries(names, values, max_size=most)  # noqa: E731
    return {
        "path": draw(named(WORD.map(str.lower), SEGMENT, 2)),
        "query": draw(named(WIRE, TEXT | st.lists(TEXT, min_size=1, max_size=3), 3)),
        "header": draw(named(WORD.map(lambda word: f"x-{word.lower()}"), HEADER, 2)),
        "cookie": draw(named(WORD, TEXT, 2)),
        "body": draw(named(WIRE, JSON, 3)),
    }


def schema_of(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"type": "array", "items": {}}
    return {"type": "string"} if isinstance(value, str) else {}


def document(case: dict[str, Any], url: str) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": place, "required": place == "path", "schema": schema_of(value)}
        for place in ("path", "query", "header", "cookie")
        for name, value in case[place].items()
    ]
    body = {"type": "object", "properties": {name: {} for name in case["body"]}}
    operation: dict[str, Any] = {
        "operationId": "f",
        "parameters": parameters,
        "responses": {"200": {"description": "ok"}},
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
    }
    path = "/" + "/".join(["p", *(f"{{{name}}}" for name in case["path"])])
    return {
        "openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": [{"url": url}],
        "paths": {path: {"post": operation}},
    }  # fmt: skip


def arguments(case: dict[str, Any], folder: Path, url: str, kit: Any) -> dict[str, Any]:
    """The values under the names of the function's parameters, as the import chose them."""
    from enginehost_engines.openapi.inputs import Inputs

    made: list[Any] = []
    original = Inputs.schema

    def spy(self: Inputs, definitions: Any) -> Any:
        made.extend(self.items)
        return original(self, definitions)

    Inputs.schema = spy  # type: ignore[method-assign]
    try:
        described = document(case, url)
        validate(described)
        kit.write(described, folder)
    finally:
        Inputs.schema = original  # type: ignore[method-assign]
    given: dict[str, Any] = {}
    for one in made:
        place = str(one.place)
        given[one.name] = case["body"] if place == "raw" else case[place][one.wire]
    return given


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases())
def test_what_arrives_is_what_was_given(service: Any, kit: Any, case: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = arguments(case, folder, service.url, kit)

        async def run() -> None:
            settings = HostSettings(state_dir=folder / "state")
            async with Host(folder / "smss", None, settings=settings, watch=False) as running:
                await running.call("f", given)

        asyncio.run(run())
    seen = service.last
    assert seen.path == "/" + "/".join(["p", *case["path"].values()])
    flat = [
        (wire, item)
        for wire, value in case["query"].items()
        for item in (value if isinstance(value, list) else [value])
    ]
    assert sorted(seen.query) == sorted(flat)
    for wire, value in case["header"].items():
        assert seen.headers[wire].encode("latin-1").decode() == value
    from urllib.parse import unquote

    pairs = [pair.partition("=") for pair in seen.headers.get("cookie", "").split("; ") if pair]
    assert {wire: unquote(value) for wire, _, value in pairs} == case["cookie"]
    assert seen.json == case["body"]


@settings(max_examples=100, deadline=None)
@given(value=st.dictionaries(TEXT, JSON, min_size=1, max_size=4), text=TEXT.map(str.strip))
def test_what_is_written_into_a_file_is_read_from_it(value: dict[str, Any], text: str) -> None:
    value = {name.replace("${", "").replace("@", ""): item for name, item in value.items()}
    long = {**value, "long": "word  and ${more} @ENGINE@ \\ # " * 12}
    lines = [key_line("FUNCTION_RESULT", long), key_line("FUNCTION_DESCRIPTION", literal(text))]
    found = interpret("\n".join(lines).encode("utf-8"), Path("x.smss"))
    assert json.dumps(found.json("FUNCTION_RESULT")) == json.dumps(long)
    assert (found.text("FUNCTION_DESCRIPTION") or "").strip() == text
    assert not found.has_errors

"""``ENGINE_CLASS = OpenAPI``: functions come and go with the document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.errors import EngineHostError
from enginehost.testing import EngineContract
from enginehost_engines.openapi import OpenApiEngine

OK = {"200": {"description": "ok"}}
PATIENCE = 20.0


def operation(name: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": f"{name}.", "responses": OK, **more}


def document(url: str, *names: str, **more: Any) -> bytes:
    paths = {f"/{name}": {"get": operation(name)} for name in names}
    found = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": url}],
        "paths": paths,
    }
    return json.dumps({**found, **more}).encode()


def write(folder: Path, **keys: str) -> Path:
    (folder / "smss").mkdir(exist_ok=True)
    lines = ["ENGINE_CLASS = OpenAPI", *(f"{key} = {value}" for key, value in keys.items())]
    path = folder / "smss" / "live.smss"
    path.write_text("\n".join(lines) + "\n")
    return path


def host(folder: Path, *, watch: bool = False) -> Host:
    return Host(folder / "smss", None, settings=HostSettings(state_dir=folder / "state"), watch=watch)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not what():
            await asyncio.sleep(0.02)


def names(running: Host) -> set[str]:
    return {entry.name for entry in running.catalog}


async def test_a_changed_file_takes_effect_and_a_broken_one_keeps_the_old(
    service: Any, tmp_path: Path
) -> None:
    write(tmp_path, OPENAPI_SPEC="api.json")
    spec = tmp_path / "smss" / "api.json"
    spec.write_bytes(document(service.url, "a", "b"))
    async with host(tmp_path, watch=True) as running:
        assert names(running) == {"a", "b"}
        spec.write_bytes(document(service.url, "b", "c"))
        await until(lambda: names(running) == {"b", "c"})
        spec.write_text("{")
        await until(lambda: any(str(one.state) == "stale" for one in running.catalog.records.values()))
        assert names(running) == {"b", "c"}
        await running.call("c", {})
        spec.write_bytes(document(service.url, "d"))
        await until(lambda: names(running) == {"d"})


async def test_a_url_is_asked_again_and_a_broken_answer_keeps_the_old(service: Any, tmp_path: Path) -> None:
    write(tmp_path, OPENAPI_SPEC=f"{service.url}/api.json", OPENAPI_REFRESH_SECONDS="1")
    service.answer("/api.json", document(service.url, "a"), ETag='"1"')
    async with host(tmp_path) as running:
        assert names(running) == {"a"}
        await until(lambda: any(one.headers.get("if-none-match") == '"1"' for one in service.seen))
        service.answer("/api.json", b"{", ETag='"2"')
        asked = len(service.seen)
        await until(lambda: len(service.seen) >= asked + 2)
        assert names(running) == {"a"}
        service.answer("/api.json", document(service.url, "b"), ETag='"3"')
        await until(lambda: names(running) == {"b"})


async def test_a_call_ends_on_the_version_it_began_on(service: Any, tmp_path: Path) -> None:
    import threading

    write(tmp_path, OPENAPI_SPEC=f"{service.url}/api.json", OPENAPI_REFRESH_SECONDS="1")
    service.answer("/api.json", document(service.url, "a"))
    service.answer("/a", "late")
    service.held["/a"] = threading.Event()
    async with host(tmp_path) as running:
        call = asyncio.create_task(running.call("a", {}))
        await until(lambda: any(one.path == "/a" for one in service.seen))
        service.answer("/api.json", document(service.url, "b"))
        await until(lambda: names(running) == {"b"})
        service.held["/a"].set()
        assert await call == "late"


async def test_keys_choose_and_name_and_credentials_hold_for_all(service: Any, tmp_path: Path) -> None:
    schemes = {
        "q": {"type": "apiKey", "in": "query", "name": "k"},
        "h": {"type": "apiKey", "in": "header", "name": "X-K"},
    }
    paths = {
        "/a": {"get": operation("a", security=[{"q": []}])},
        "/b": {"get": operation("b", security=[{"h": []}])},
        "/c": {"get": operation("c", servers=[{"url": service.url.replace("127.0.0.1", "localhost")}])},
        "/d": {"get": operation("d")},
    }
    write(
        tmp_path, OPENAPI_SPEC="api.json", OPENAPI_EXCLUDE="d", OPENAPI_PREFIX="my_", OPENAPI_TAGS="x",
        API_KEY_VALUE="key-123456",
    )  # fmt: skip
    more = {"components": {"securitySchemes": schemes}, "paths": paths}
    (tmp_path / "smss" / "api.json").write_bytes(document(service.url, **more))
    async with host(tmp_path) as running:
        assert names(running) == {"my_a", "my_b", "my_c"}
        assert running.entry("my_a").signature.tags == ("x",)
        await running.call("my_a", {})
        assert service.last.query == [("k", "key-123456")]
        assert "x-api-key" not in service.last.headers
        await running.call("my_b", {})
        assert service.last.headers["x-k"] == "key-123456"
        await running.call("my_c", {})
        assert "key-123456" not in str(service.last)


async def test_credentials_do_not_go_where_a_document_from_elsewhere_says(
    service: Any, tmp_path: Path
) -> None:
    other = service.url.replace("127.0.0.1", "localhost")
    service.answer("/api.json", document(other, "a"))
    write(tmp_path, OPENAPI_SPEC=f"{service.url}/api.json", AUTH_TOKEN="t-123456")
    async with host(tmp_path) as running:
        (record,) = running.catalog.records.values()
        assert str(record.state) == "failed"
        assert "OPENAPI_BASE_URL" in str(record.diagnostics[-1])
    write(tmp_path, OPENAPI_SPEC=f"{service.url}/api.json", AUTH_TOKEN="t-123456", OPENAPI_BASE_URL=other)
    async with host(tmp_path) as running:
        await running.call("a", {})
        assert service.last.headers["authorization"] == "Bearer t-123456"


async def test_limits_and_bound_parameters_hold_for_all(service: Any, tmp_path: Path) -> None:
    parameters = [{"name": "tenant", "in": "query", "required": True, "schema": {"type": "string"}}]
    more = {"paths": {"/a": {"get": operation("a", parameters=parameters)}, "/b": {"get": operation("b")}}}
    write(tmp_path, OPENAPI_SPEC="api.json", TIMEOUT_SECONDS="7", FUNCTION_BIND='{"tenant": "acme"}')
    (tmp_path / "smss" / "api.json").write_bytes(document(service.url, **more))
    async with host(tmp_path) as running:
        assert running.entry("a").function.limits.timeout == 7
        assert running.entry("a").signature.required == ()
        await running.call("a", {})
        assert service.last.query == [("tenant", "acme")]
        await running.call("b", {})
        assert service.last.query == []


@pytest.mark.parametrize("url", ["/missing.json", "/broken.json"])
async def test_a_document_that_cannot_be_had_hurts_this_engine_only(
    service: Any, tmp_path: Path, url: str
) -> None:
    service.answer("/missing.json", None, 404)
    service.answer("/broken.json", b"{")
    write(tmp_path, OPENAPI_SPEC=f"{service.url}{url}?token=secret-123")
    (tmp_path / "smss" / "other.smss").write_text(
        f"ENGINE_CLASS = REST\nURL = {service.url}/x\nFUNCTION_NAME = other\nFUNCTION_DESCRIPTION = Other.\n"
    )
    async with host(tmp_path) as running:
        assert names(running) == {"other"}
        record = running.catalog.records["live"]
        assert str(record.state) == "failed"
        assert "secret-123" not in record.reason
        with pytest.raises(EngineHostError):
            await running.call("a", {})


class TestContract(EngineContract):
    """The engine keeps the contract of all engines."""

    engine_class = OpenApiEngine
    smss = "ENGINE_CLASS = OpenAPI\nOPENAPI_SPEC = api.json\n"
    examples = (({"n": 1}, {"n": 1}),)

    @pytest.fixture(autouse=True)
    def _service(self, service: Any) -> None:
        type(self).url = service.url
        service.answer("/double", {"n": 1})

    def prepare(self, folder: Path) -> None:
        body = {"required": True, "content": {"application/json": {"schema": {
            "type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}}}}}  # fmt: skip
        paths = {"/double": {"post": operation("double", requestBody=body)}}
        (folder / "api.json").write_bytes(document(self.url, paths=paths))  # type: ignore[attr-defined]

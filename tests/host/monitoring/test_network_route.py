"""``GET /v1/network`` shows a caller what it may view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from enginehost import EngineContext, Function, Host, HostSettings
from enginehost.call import Call
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine
from enginehost.serve import HttpServer


class Two(AbstractFunctionEngine):
    """One function that everybody may view, and one that few may."""

    def functions(self) -> list[Function]:
        schema = {"type": "object"}
        return [self.context.function(self.run, name=name, parameters=schema) for name in ("open", "hidden")]

    async def run(self, arguments: dict[str, Any], call: Call) -> Any:
        return 1


async def test_what_a_caller_may_not_view_is_in_no_node_and_no_edge(tmp_path: Path) -> None:
    rules = [{"allow": "call", "callers": "anyone", "functions": ["open"]}]
    settings = HostSettings(
        state_dir=tmp_path,
        policy={"default": "deny", "rules": rules},  # type: ignore[arg-type]
    )
    async with Host(None, None, settings=settings) as host:
        await host.add_engine(EngineRecord("e", "Test"), Two(EngineContext("e")))
        for name in ("open", "hidden"):
            await host.call(name)
        host.write_down()
        server = HttpServer(host, "127.0.0.1:0")
        await server.start()
        try:
            async with httpx2.AsyncClient(base_url=server.url) as client:
                answer = (await client.get("/v1/network")).json()
        finally:
            await server.stop()
    assert {one["id"] for one in answer["nodes"] if one["kind"] == "function"} == {"function:open"}
    assert [(one["to"], one["calls"]) for one in answer["edges"]] == [("function:open", 1)]

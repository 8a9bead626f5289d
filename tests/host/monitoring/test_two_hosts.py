"""One chain over two hosts: the same ids in spans, in the database and at a monitor."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from enginehost import EngineContext, Function, Host, HostSettings
from enginehost.call import Call
from enginehost.catalog import EngineRecord
from enginehost.databus import DatabusConfig
from enginehost.engine import AbstractFunctionEngine
from enginehost.monitoring.database import latest, steps_of
from enginehost.store.connecting import database_of

ANYTHING = {"type": "object", "additionalProperties": True}


class One(AbstractFunctionEngine):
    """One function, which calls another by name, or answers."""

    def __init__(self, host: Host, name: str, then: str = "") -> None:
        super().__init__(EngineContext(name))
        self._host, self._name, self._then = host, name, then

    def functions(self) -> list[Function]:
        return [self.context.function(self.run, name=self._name, parameters=ANYTHING)]

    async def run(self, arguments: dict[str, Any], call: Call) -> Any:
        return await self._host.call(self._then, arguments) if self._then else 42


def host_at(folder: Path, domain: int, service: str) -> Host:
    folder.mkdir()
    url = f"sqlite:///{folder.parent / 'chains.db'}"
    settings = HostSettings(state_dir=folder, record_chains="on", store={"url": url})  # type: ignore[arg-type]
    return Host(None, DatabusConfig(domain=domain, state_dir=folder, service=service), settings=settings)


async def test_spans_records_and_events_of_a_chain_over_two_hosts_have_the_same_ids(
    tmp_path: Path, dds_domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cyclonedds")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    async with (
        host_at(tmp_path / "a", dds_domain, "desk") as near,
        host_at(tmp_path / "b", dds_domain, "math") as far,
    ):
        await far.add_engine(EngineRecord("far", "Test"), One(far, "add"))
        await near.add_engine(EngineRecord("near", "Test"), One(near, "outer", "math.add"))
        assert near.bus is not None
        await near.bus.arrival("math.add")
        command = ["monitor", "--domain", str(dds_domain), "--seconds", "6", "--json", "--component", "add"]
        monitor = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "enginehost", *command, stdout=asyncio.subprocess.PIPE
        )
        assert monitor.stdout is not None
        steps: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(40):
            while not (done := [one for one in steps.values() if one.get("duration_ms") is not None]):
                exporter.clear()
                await near.call("outer", {})
                try:
                    line = await asyncio.wait_for(monitor.stdout.readline(), 0.5)
                except TimeoutError:
                    continue
                told = json.loads(line)
                if told["event"] == "step":
                    steps[told["call"]] = told
        monitor.terminate()
        await monitor.wait()
        chain = done[0]["chain"]
        exporter.clear()
        assert await near.call("outer", {}) == 42
        near.write_down()
        far.write_down()
        spans = {_ids(span)[1]: span for span in exporter.get_finished_spans()}
    database = database_of(f"sqlite:///{tmp_path / 'chains.db'}", synchronous="normal", lock_timeout=5)
    link = database.writer()
    head = latest(link, most=1)[0]
    kept = steps_of(link, head.chain)
    seen_by_monitor = steps_of(link, chain)
    link.close()
    assert {f"{span:016x}" for span in spans} == set(kept)
    assert {f"{_ids(one)[0]:032x}" for one in spans.values()} == {head.chain}
    parents = {f"{i:016x}": f"{one.parent.span_id:016x}" if one.parent else "" for i, one in spans.items()}
    assert parents == {call: one.parent for call, one in kept.items()}
    assert len({one.host for one in kept.values()}) == 2
    assert len(kept) == 3
    assert done[0]["call"] in seen_by_monitor


def _ids(span: Any) -> tuple[int, int]:
    context = span.get_span_context()
    return context.trace_id, context.span_id


async def test_a_monitor_records_what_it_sees_and_shows_it_again(tmp_path: Path, dds_domain: int) -> None:
    pytest.importorskip("cyclonedds")
    config = tmp_path / "enginehost.yaml"
    config.write_text(f"state_dir: {tmp_path}\n")
    words = ["--domain", str(dds_domain), "--config", str(config)]

    async def monitor(*more: str) -> Any:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "enginehost", "monitor", *words, *more, stdout=asyncio.subprocess.PIPE
        )

    bus = DatabusConfig(domain=dds_domain, service="math", event_values=True)
    async with Host(None, bus, settings=HostSettings(state_dir=tmp_path)) as host:
        await host.add_engine(EngineRecord("far", "Test"), One(host, "add"))
        watching = await monitor("--record", "--graph", "--json", "--seconds", "4")
        while watching.returncode is None:
            await host.call("add", {"question": "secret"})
            await asyncio.wait({asyncio.ensure_future(watching.wait())}, timeout=0.3)
        graph = json.loads(await watching.stdout.read())
    assert {one["name"] for one in graph["nodes"]} >= {"add", "math"}
    assert {(one["from"], one["to"]) for one in graph["edges"]} == {("local", "add")}
    again = await monitor("--since", "10", "--seconds", "0.3", "--json")
    lines = [json.loads(line) for line in (await again.stdout.read()).splitlines()]
    await again.wait()
    steps = [one for one in lines if one["event"] == "step" and one["status"] == "ok"]
    assert {one["name"] for one in steps} == {"add"}
    assert steps[-1]["given"] == {"question": "secret"}
    assert steps[-1]["gave"] == 42

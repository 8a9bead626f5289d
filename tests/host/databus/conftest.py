"""A host without files on the bus, and a peer in a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from enginehost.caller import Caller
from enginehost.catalog import Catalog, EngineRecord, Entry
from enginehost.databus import Databus, DatabusConfig
from enginehost.engine import Call, EngineState, Function, run_mode
from enginehost.errors import EngineHostError
from enginehost.invoke import Invoker
from enginehost.policy import Policy, open_policy
from enginehost.record import Recorder, Sink, Stats
from enginehost.signature import FunctionSignature
from enginehost.values import encode

PATIENCE = 20.0


class ServedCatalog:
    """What the databus needs of a host, with the real call path and functions put in by the test."""

    def __init__(self, policy: Policy) -> None:
        self.folder: Path | None = None
        self.catalog = Catalog()
        self._invoker = Invoker(
            self.catalog,
            policy,
            Recorder((), lossless=False),
            default_timeout=60.0,
            max_result_bytes=16 << 20,
            max_in_flight=10_000,
            keep_values=False,
            redact=str,
        )

    @property
    def policy(self) -> Policy:
        return self._invoker.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._invoker.policy = policy

    def new_call(self, name: str, *given: Any) -> Call:
        return self._invoker.new_call(name, *given)

    async def call_json(self, call: Call, arguments: Mapping[str, Any], **options: Any) -> bytes:
        return await self._invoker.call(call, arguments, encode=lambda result, _: encode(result), **options)

    def stream_json(self, call: Call, arguments: Any, **options: Any) -> AsyncGenerator[bytes, None]:
        return self._invoker.stream(call, arguments, encode=lambda result, _: encode(result), **options)

    def visible(self, name: str, caller: Caller) -> Entry | None:
        return self._invoker.visible(name, caller)

    def stats(self, name: str) -> Stats | None:
        return self._invoker.stats.get(name)

    def refuse(self, call: Call, error: EngineHostError) -> None:
        self._invoker.refuse(call, error)

    def redactor(self, text: str) -> str:
        return text

    def watch_starts(self, heard: Callable[[Call], None] | None) -> None:
        self._invoker.tracing.watch(heard)

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        return self._invoker.recorder.add(sink)

    def put(self, name: str, run: Callable[..., Any] | None = None, **signature: Any) -> None:
        """Serve ``run`` (by default: add ``a`` and ``b``) as ``name``."""
        self.put_all([name], run, **signature)

    def put_all(self, names: list[str], run: Callable[..., Any] | None = None, **signature: Any) -> None:
        run = run or add
        signature.setdefault("parameters", TWO_INTEGERS if run is add else ANYTHING)
        self.catalog.update(
            (
                EngineRecord(name, "test", state=EngineState.READY),
                [Function(FunctionSignature(name, **signature), run, run_mode(run))],
            )
            for name in names
        )

    def remove(self, name: str) -> None:
        self.catalog.remove(name)

    async def close(self) -> None:
        await self._invoker.close()


ANYTHING = {"type": "object", "additionalProperties": True}
TWO_INTEGERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


async def add(arguments: dict[str, Any], call: Any) -> int:
    return arguments["a"] + arguments["b"]


class Peer:
    """The program ``peer.py``, and what it said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._heard = asyncio.Condition()
        self.capabilities: dict[str, dict[str, Any]] = {}
        """Alive capabilities by function id."""
        self.disposed: set[str] = set()
        """The ids of functions that their host took back, rather than being lost with it."""
        self.versions = 0
        self.replies: list[dict[str, Any]] = []
        self.providers = 0
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = json.loads(line)
            async with self._heard:
                self._take(event.pop("event"), event)
                self._heard.notify_all()

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "capability":
            self.capabilities[event["function_id"]] = event
            self.versions += 1
        elif kind == "gone":
            self.capabilities.pop(event["function_id"], None)
            if event["disposed"]:
                self.disposed.add(event["function_id"])
        elif kind == "reply":
            self.replies.append(event)
        else:
            self.providers = event["count"]

    @property
    def names(self) -> set[str]:
        return {capability["name"] for capability in self.capabilities.values()}

    def named(self, name: str) -> dict[str, Any]:
        return next(c for c in self.capabilities.values() if c["name"] == name)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until ``holds``, which is asked after each thing the peer says."""
        async with asyncio.timeout(PATIENCE), self._heard:
            await self._heard.wait_for(holds)

    async def sees(self, *names: str) -> None:
        await self.until(lambda: self.names == set(names) and (self.providers or not names))

    def send(self, function_id: str, parameters: Any = "{}", request_id: str = "r1", **more: Any) -> None:
        """Write a request; ``parameters`` other than text become JSON."""
        text = parameters if isinstance(parameters, str) else json.dumps(parameters)
        order = {
            "function_id": function_id,
            "parameters": text,
            "request_id": request_id,
            "metadata": "",
            **more,
        }
        self._write(order)

    def recover(self) -> None:
        """Read on: for a peer that was started with ``--never-take``."""
        self._write({"recover": True})

    def _write(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def call(
        self, name: str, parameters: Any = "{}", request_id: str = "r1", **more: Any
    ) -> dict[str, Any]:
        """Call a function it sees; the reply, with its metadata parsed."""
        return await self.call_id(self.named(name)["function_id"], parameters, request_id, **more)

    async def call_id(
        self, function_id: str, parameters: Any = "{}", request_id: str = "r1", **more: Any
    ) -> dict[str, Any]:
        before = len(self.replies)

        def mine() -> list[dict[str, Any]]:  # peers hear the answers to others too
            return [reply for reply in self.replies[before:] if reply["request_id"] == request_id]

        self.send(function_id, parameters, request_id, **more)
        await self.until(mine)
        (reply,) = mine()
        assert reply["function_id"] == function_id
        return reply | {"metadata": json.loads(reply["metadata"])}

    def pause(self) -> None:
        """Stand still, as a program in a debugger or a sleeping laptop does."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()
        await self._listening

    async def close(self) -> None:
        if self._process.returncode is not None:
            return  # killed
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await self._process.wait() == 0
            await self._listening


StartHost = Callable[..., Awaitable[tuple[ServedCatalog, Databus]]]


@pytest.fixture
async def start_host(dds_domain: int) -> AsyncIterator[StartHost]:
    """Starts hosts on the bus; all are stopped at the end."""
    pytest.importorskip("cyclonedds")
    async with AsyncExitStack() as stack:

        async def start(policy: Policy | None = None, **config: Any) -> tuple[ServedCatalog, Databus]:
            host = ServedCatalog(policy or open_policy())
            bus = Databus(host, DatabusConfig(domain=dds_domain, **config))
            stack.push_async_callback(host.close)
            await bus.start()
            stack.push_async_callback(bus.stop)
            return host, bus

        yield start


@asynccontextmanager
async def running_peer(domain: int, *options: str) -> AsyncIterator[Peer]:
    """A peer on the bus. Its program must end by itself, without an error, unless the test kills it."""
    program = Path(__file__).with_name("peer.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(domain), *options,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20,
    )  # fmt: skip
    peer = Peer(process)
    try:
        yield peer
        await peer.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def peer(dds_domain: int) -> AsyncIterator[Peer]:
    """A peer that is there before the host."""
    pytest.importorskip("cyclonedds")
    async with running_peer(dds_domain) as peer:
        yield peer


@pytest.fixture
def late_peer(dds_domain: int) -> Callable[..., AbstractAsyncContextManager[Peer]]:
    """Starts a peer, with options, when it is called."""
    pytest.importorskip("cyclonedds")
    return partial(running_peer, dds_domain)

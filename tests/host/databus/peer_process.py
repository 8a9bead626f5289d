"""The program ``peer.py`` in a process of its own, and what it says."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from enginehost.errors import ERROR_TABLE

from .processes import PATIENCE, ends_well, running_program


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
        await ends_well(self._process)
        async with asyncio.timeout(PATIENCE):
            await self._listening


@asynccontextmanager
async def running_peer(domain: int, *options: str) -> AsyncIterator[Peer]:
    """A peer on the bus. Its program must end by itself, without an error, unless the test kills it."""
    program = Path(__file__).with_name("peer.py")
    async with running_program(str(program), str(domain), *options) as process:
        peer = Peer(process)
        yield peer
        await peer.close()


def code(reply: dict[str, Any]) -> str:
    """The error code of a reply, once its status, text and metadata agree on it."""
    error = reply["metadata"]["error"]
    assert reply["status"] == ERROR_TABLE[error["code"]].bus
    assert reply["error_message"] == error["message"]
    assert reply["result"] == ""
    return error["code"]

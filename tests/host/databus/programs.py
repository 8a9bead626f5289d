"""Programs that tests stop, continue and kill.

``programs.py host DOMAIN STATE`` is a host with the function ``add``, until its input closes.
``programs.py ask DOMAIN NAME METADATA`` calls a function as hosts call each other, in partitions, and
prints each reply as a JSON line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enginehost.databus import DatabusConfig, ExecutionReply, ExecutionRequest
from enginehost.databus.identity import new_incarnation
from enginehost.databus.metadata import partition_of
from enginehost.databus.port import Sighting


async def host(domain: int, state: str) -> None:
    from enginehost.catalog import EngineRecord
    from enginehost.engine import AbstractFunctionEngine, EngineContext
    from enginehost.host import Host
    from enginehost.settings import HostSettings
    from enginehost.signature import FunctionSignature

    class Add(AbstractFunctionEngine):
        async def execute(self, parameters: dict[str, Any]) -> int:
            return parameters["a"] + parameters["b"]

    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    signature = FunctionSignature("add", parameters={"type": "object", "properties": properties})
    async with Host(
        None, DatabusConfig(domain=domain), settings=HostSettings(state_dir=Path(state))
    ) as running:
        await running.add_engine(EngineRecord("add", "test"), Add(EngineContext("add", signature=signature)))
        await asyncio.to_thread(sys.stdin.read)


class Seen:
    """Waits for the capability of a function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.found: asyncio.Future[Sighting] = asyncio.get_running_loop().create_future()

    def seen(self, sightings: Sequence[Sighting]) -> None:
        for one in sightings:
            if one.capability is not None and one.capability.name == self._name and not self.found.done():
                self.found.set_result(one)

    def anew(self) -> None: ...


def say(replies: Sequence[ExecutionReply]) -> None:
    for reply in replies:
        line = {"result": reply.result.decode(), "metadata": json.loads(reply.metadata)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def ask(domain: int, name: str, metadata: dict[str, Any]) -> None:
    from enginehost.databus.cyclone import CycloneTransport

    transport = await asyncio.to_thread(CycloneTransport, DatabusConfig(domain=domain, lease=1.0))
    incarnation = new_incarnation()
    await transport.listen(say, partition_of(incarnation), lambda _: None)
    watcher = Seen(name)
    await transport.watch(watcher)
    sighting = await watcher.found
    assert sighting.capability is not None
    provider = partition_of(json.loads(sighting.capability.classification)["incarnation"])
    assert await transport.reach(provider, sighting.participant, 10.0)
    said = metadata | {"from": incarnation, "reply_partition": partition_of(incarnation)}
    request = ExecutionRequest("r", sighting.function_id, b"{}", 1, json.dumps(said).encode())
    assert await transport.send(request, provider)
    await asyncio.to_thread(sys.stdin.read)
    await transport.close()


if __name__ == "__main__":
    what, domain, *more = sys.argv[1:]
    if what == "host":
        asyncio.run(host(int(domain), *more))
    else:
        asyncio.run(ask(int(domain), more[0], json.loads(more[1])))

"""A host whose events go to a transport that writes them down."""

from __future__ import annotations

import asyncio
import io
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from enginehost import EngineContext, Function, Host, HostSettings
from enginehost.call import Call
from enginehost.catalog import EngineRecord
from enginehost.databus.config import DatabusConfig
from enginehost.databus.events import Events
from enginehost.databus.graph import TOPOLOGY
from enginehost.databus.identity import Identity
from enginehost.databus.types import (
    CHAIN_EVENT,
    COMPONENT_LIFECYCLE_EVENT,
    TOPICS,
)
from enginehost.engine import AbstractFunctionEngine
from enginehost.policy import BOTH
from enginehost.signature import FunctionSignature

from .served import ANYTHING

CHAIN, LIFECYCLE = CHAIN_EVENT.name, COMPONENT_LIFECYCLE_EVENT.name


SECRET = "correct-horse-battery"


class Monitored:
    """A transport that writes down what it is given. ``accepts`` says whether there is room."""

    def __init__(self, *topics: str) -> None:
        self.topics = set(topics)
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.ended: list[str] = []
        self.tried = 0
        self.durable: dict[str, dict[str, Any]] = {}
        self.offline: list[str] = []
        self.accepts: Callable[[], bool] = lambda: True

    def listened(self, topic: str) -> bool:
        return topic in self.topics

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool = False) -> bool:
        self.tried += 1
        if topic not in self.topics or not self.accepts():
            return False
        assert set(values) == {member.name for member in TOPICS[topic].struct.members}
        self.events[topic].append(dict(values))
        if last:
            self.ended.append(values[next(m.name for m in TOPICS[topic].struct.members if m.key)])
        return True

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        assert topic == TOPOLOGY
        self.durable |= {sample["element_id"]: dict(sample) for sample in samples}
        self.offline += [sample["element_id"] for sample in samples if sample["state"] == "OFFLINE"]

    async def drop(self, topic: str, keys: Sequence[str]) -> None:
        for key in keys:
            del self.durable[key]

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.002)


class Functions(AbstractFunctionEngine):
    """Functions that call one another."""

    def __init__(self, host: Host, *names: str) -> None:
        super().__init__(EngineContext("e"))
        self._host = host
        self._names = names or ("add", "outer", "broken", "slow")
        self.go = asyncio.Event()

    def functions(self) -> list[Function]:
        return [
            self.context.function(getattr(self, name), name=name, parameters=ANYTHING) for name in self._names
        ]

    async def add(self, arguments: dict[str, Any], call: Call) -> Any:
        return arguments.get("a", 0) + 1

    async def outer(self, arguments: dict[str, Any], call: Call) -> Any:
        return [await self._host.call("add", {"a": 1}), await self._host.call("add")]

    async def broken(self, arguments: dict[str, Any], call: Call) -> Any:
        raise ValueError(f"no good: {arguments}")

    async def slow(self, arguments: dict[str, Any], call: Call) -> Any:
        await self.go.wait()


def everything(signature: FunctionSignature) -> int:
    return BOTH


class Running:
    """A host, and its events on a transport."""

    def __init__(self, host: Host, engine: Functions, monitor: Monitored, log: io.StringIO) -> None:
        self.host, self.engine, self.monitor, self._log = host, engine, monitor, log
        self.identity = Identity(None)
        self.events: Any = None

    async def start(self, rights: Callable[[FunctionSignature], int] = everything, **config: Any) -> Events:
        bus = DatabusConfig(service="shop", **config)
        self.events = Events(self.monitor, self.host, self.identity, bus, rights)  # type: ignore[arg-type]
        self.events.start()
        await asyncio.sleep(0)  # in which it looks who listens
        return self.events

    def told(self, topic: str) -> list[dict[str, Any]]:
        return self.monitor.events[topic]

    @property
    def lines(self) -> list[dict[str, Any]]:
        self.host.write_down()
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    def id_of(self, name: str) -> str:
        return self.identity.function_id("shop", name)


@asynccontextmanager
async def running(*topics: str) -> AsyncGenerator[Running]:
    log, monitor = io.StringIO(), Monitored(*topics)
    async with Host(None, None, settings=HostSettings(log={"format": "json"}), log=log) as host:  # type: ignore[arg-type]
        engine = Functions(host)
        await host.add_engine(EngineRecord("e", "Test"), engine)
        made = Running(host, engine, monitor, log)
        yield made
        if made.events is not None:
            await made.events.stop()

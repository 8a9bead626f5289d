"""What agents need of the transport: their advertisements, and pairs of topics for questions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

pytest.importorskip("rti.connextdds", reason="does not apply: rti.connext is not installed")

import played
from enginehost_connext.transport import ConnextTransport

from enginehost.databus import DatabusConfig, Instance, Sample, TopicPair
from enginehost.databus.types import AGENT_AGENT_REPLY, AGENT_AGENT_REQUEST

PAIR = TopicPair("svc_1Request", "svc_1Reply", AGENT_AGENT_REQUEST, AGENT_AGENT_REPLY)
AGENT = {"agent_id": "a1", "name": "größe", "service_name": "svc", "last_seen": 7, "default_capable": 1}


class Heard:
    def __init__(self) -> None:
        self.instances: list[Instance] = []
        self.samples: list[Sample] = []
        self.gone: list[str] = []

    def seen(self, instances: Sequence[Instance]) -> None:
        self.instances += instances

    def anew(self) -> None: ...


@pytest.fixture
async def two() -> AsyncIterator[tuple[ConnextTransport, ConnextTransport]]:
    bus = played.Bus()
    config = DatabusConfig(domain=random.randint(60, 95))
    async with AsyncExitStack() as stack:
        made: list[ConnextTransport] = []
        for _ in range(2):
            made.append(await asyncio.to_thread(ConnextTransport, config, bus.library()))
            stack.push_async_callback(made[-1].close)
        yield made[0], made[1]


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is asked for is not always told
            await asyncio.sleep(0.002)


async def test_agents_come_and_go(two: tuple[ConnextTransport, ConnextTransport]) -> None:
    one, other = two
    heard = Heard()
    await one.put("AgentCapability", [AGENT])
    await other.follow("AgentCapability", heard)
    await until(lambda: heard.instances)
    first = heard.instances[0]
    assert (first.key, first.values and first.values["name"], first.lost) == ("a1", "größe", False)
    assert first.participant
    await one.drop("AgentCapability", ["a1"])
    await until(lambda: len(heard.instances) == 2)
    assert heard.instances[1] == Instance("a1", None, first.participant, False)


async def test_a_reply_says_which_request_it_is_about(
    two: tuple[ConnextTransport, ConnextTransport],
) -> None:
    one, other = two
    asked, answered = Heard(), Heard()
    serving = await one.pair(PAIR, asked.samples.extend, asked.gone.append, serves=True)
    asking = await other.pair(PAIR, answered.samples.extend, answered.gone.append, serves=False)
    assert await asking.reach("", 5.0)
    assert not await asking.reach("nobody", 0.01)
    tokens = [await asking.send({"message": f"m{number}", "conversation_id": "c"}) for number in range(2)]
    assert len(set(tokens)) == 2
    await until(lambda: len(asked.samples) == 2)
    for sample in reversed(asked.samples):
        reply = {"message": f"re {sample.values['message']}", "status": 0}
        assert await serving.send(reply, sample.about) == ""
    assert await serving.send({"message": "again"}, asked.samples[0].about) is None
    assert await serving.send({"message": "x" * 9000}, "unknown") is None
    await until(lambda: len(answered.samples) == 2)
    assert {one.about: one.values["message"] for one in answered.samples} == {
        tokens[0]: "re m0",
        tokens[1]: "re m1",
    }
    assert asking.peers == {answered.samples[0].participant}
    await serving.close()
    await until(lambda: answered.gone)
    assert not asking.peers

"""The agents that come, change and go, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from enginehost.caller import Caller
from enginehost.databus import AgentChange, AgentEvent, BusAgent
from enginehost.errors import EngineUnavailable, OutcomeUnknown
from enginehost.serve.agents.seen import agent_json, agents_seen
from enginehost.serve.disconnect import Watch
from enginehost.serve.events import QUIET_SECONDS, EventStream
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

LOOK_SECONDS = 1.0
"""How often it is looked without news: a policy may have changed, or the host be about to stop."""
TOGETHER_SECONDS = 0.02
"""News that come so close together are looked at once."""


class AgentEvents:
    """``GET /v1/agents/events`` as an ASGI application."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell one subscriber, until it leaves or the host stops."""
        stream = EventStream(send, list)
        await stream.open()
        watch = Watch(receive, beat=stream.beat, every=QUIET_SECONDS)
        try:
            async with aclosing(changes(self._host, scope["enginehost"].caller)) as events:
                async for event in events:
                    data = write(agent_json(self._host, event.agent))
                    await stream.event(str(event.kind).encode(), data)
            await stream.end()
        except asyncio.CancelledError:
            with suppress(OutcomeUnknown):  # the server stops, and nothing is lost by that
                watch.settle()
            await stream.end()
        finally:
            watch.stop()


async def changes(host: Host, caller: Caller) -> AsyncGenerator[AgentEvent, None]:
    """What there is for ``caller``, as arrivals; then what changes, until the host stops.

    What is told follows from what there is at a moment and was before it: one that goes and comes at once has
    not changed.
    """
    known: dict[str, BusAgent] = {}
    with _news(host) as news:
        while host.accepting:
            there = {agent.id: agent for agent in agents_seen(host, caller)}
            for event in differences(known, there):
                yield event
            known = there
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await news.wait()
                await asyncio.sleep(TOGETHER_SECONDS)
            news.clear()


def differences(before: dict[str, BusAgent], after: dict[str, BusAgent]) -> Generator[AgentEvent]:
    """What happened between two moments: departures, then arrivals and changes."""
    for key, agent in before.items():
        if key not in after:
            yield AgentEvent(AgentChange.DEPARTED, agent)
    for key, agent in after.items():
        if key not in before:
            yield AgentEvent(AgentChange.ARRIVED, agent)
        elif before[key] != agent:
            yield AgentEvent(AgentChange.CHANGED, agent)


@contextmanager
def _news(host: Host) -> Generator[asyncio.Event]:
    """An event that is set when agents of this host, or of others, may have changed."""
    news = asyncio.Event()

    async def follow() -> None:
        if host.bus is None:
            return
        with suppress(EngineUnavailable):  # this host looks for none
            async with aclosing(host.bus.agent_events()) as events:
                async for _ in events:
                    news.set()

    unsubscribe = host.catalog.subscribe(lambda _: news.set())
    following = asyncio.get_running_loop().create_task(follow(), name="http-agents")
    try:
        yield news
    finally:
        unsubscribe()
        following.cancel()

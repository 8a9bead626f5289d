"""A question over the bus is one chain: from the interface over two agents on two hosts to their models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from enginehost.cli.monitor.watching import Watched
from enginehost.databus import DatabusConfig
from enginehost.databus.heard_events import TOPICS_HEARD, Heard, heard
from enginehost.databus.transports import load_cyclone
from enginehost.genesis import Interface
from enginehost.monitoring.seen import Node, Seen, tree_of

from .conftest import PRIMARY, WEATHER, agent, known, until


class Noted(Watched):
    """Keeps what begins, too: at the end more is known of it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Seen] = []

    def take(self, one: Heard) -> Heard | None:
        if isinstance(one, Seen) and not one.outcome:
            self.begun.append(one)
        return super().take(one)


def listen(domain: int, watched: Watched, stop: threading.Event) -> None:
    with load_cyclone("listening").Listener(DatabusConfig(domain=domain), TOPICS_HEARD) as listener:
        while not stop.is_set():
            for topic, values, key, _ in listener.take(0.05):
                for one in heard(topic, values, key):
                    watched.take(one)


def ways(nodes: list[Node], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for node in nodes:
        way = (*above, node.seen.kind)
        yield way
        yield from ways(node.below, way)


async def test_a_question_is_one_chain_from_the_interface_to_the_last_model(
    start: Any, dds_domain: int
) -> None:
    far = await start("far", WEATHER, weather=agent("weather", "SPECIALIZATIONS = weather"))
    primary = agent("primary", "AGENTS = weather", "DEFAULT_CAPABLE = true")
    near = await start("near", PRIMARY, primary=primary)
    await known(near, "get_weather_info")
    watched, stop = Noted(), threading.Event()
    listening = asyncio.create_task(asyncio.to_thread(listen, dds_domain, watched, stop))
    try:
        async with Interface("desk", domain=dds_domain) as ui:
            for host in (near, far):
                await until(lambda host=host: host._invoker.tracing.on)
            found: dict[tuple[str, ...], int] = {}
            answer = await ui.ask("the weather please", "primary")
            assert "They say" in answer

            def whole() -> bool:
                for _, steps in watched.chains.latest():
                    found.clear()
                    for way in ways(tree_of(steps)):
                        found[way] = found.get(way, 0) + 1
                    if found.keys() and len(found) >= 7 and not any(one.running for one in steps.values()):
                        return True
                return False

            await until(whole)
    finally:
        stop.set()
        await listening
    told = [one for _, steps in watched.chains.latest() for one in steps.values()]
    assert not [one for one in told if one.given or one.gave], "what was said is told nobody unasked"
    assert "They say" not in repr(told)
    assert all(one.outcome == "ok" and one.seconds >= 0 for one in told)
    models = [one.name for one in watched.begun if one.kind == "model"]
    assert set(models) == {"actor"}, "whose host dies meanwhile is known by name"
    asked = ("request", "call", "turn")
    assert found[(*asked, "model")] == 2
    assert found[(*asked, "agent", "call", "call", "turn", "model")] == 1
    kinds = {one.kind for one in watched.components.values()}
    assert kinds >= {"SERVICE", "PRIMARY_AGENT", "SPECIALIZED_AGENT", "INTERFACE"}

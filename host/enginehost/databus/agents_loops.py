"""Agents that ask each other in a circle, or crosswise: an error where they would wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from enginehost.caller import Caller
from enginehost.catalog import Entry
from enginehost.errors import InvalidRequest, Overloaded
from enginehost.record import Stats

PLACE_SECONDS = 30.0
"""How long an agent's question waits for a place (``MAX_CONCURRENCY``) of another: two that wait for each
other, each in the other's place, would do so to their deadlines."""

LOOK_SECONDS = 0.02


class Serving(Protocol):
    """What of a host there is to look at."""

    def visible(self, name: str, caller: Caller) -> Entry | None:
        """``Host.visible``."""
        ...

    def stats(self, name: str) -> Stats | None:
        """``Host.stats``."""
        ...


async def a_place(host: Serving, name: str, caller: Caller, chain: Sequence[str]) -> None:
    """Wait until a function that agents ask may run.

    Raises :class:`InvalidRequest` at once for an agent that is in the chain already: its place may be held by
    the very turn that waits for this call. A circle with places left goes on, to the depth that its agents
    allow. Raises :class:`Overloaded` where no place gets free in time.
    """
    entry = host.visible(name, caller)
    most = entry.function.limits.max_concurrency if entry is not None else None
    if most is None:
        return
    loop = asyncio.get_running_loop()
    until = loop.time() + PLACE_SECONDS
    while (stats := host.stats(name)) is not None and stats.running >= most:
        if name in chain:
            way = " → ".join((*chain, name))
            text = f"{name} runs {most} at once, and is to answer in this chain already: {way}"
            raise InvalidRequest(text, detail={"reason": "loop", "chain": [*chain, name]})
        if loop.time() >= until:
            raise Overloaded(f"{name} runs {most} at once, and none of them has ended in {PLACE_SECONDS:g} s")
        await asyncio.sleep(LOOK_SECONDS)

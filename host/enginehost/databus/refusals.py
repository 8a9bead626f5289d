"""Refusals on their way: those to one participant wait in a line of their own, in bounded number.

A participant that takes its replies gets each refusal: where its line is full, further requests are not
taken for a moment, which slows it down. One that is not known to take any, or takes none for that
moment, loses what its line cannot hold, so that it holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from enginehost.databus.port import ExecutionReply
from enginehost.databus.replies import ReturnAddress

log = logging.getLogger("enginehost.databus")

LINE = 1_024
"""Refusals that may wait for one participant."""

PATIENCE = 5.0
"""Seconds for which the requests of all may wait for a place in the line of one."""

MOST_KNOWN = 4_096
"""Participants that are remembered to take their replies."""

Send = Callable[[ExecutionReply, ReturnAddress], Awaitable[bool]]
"""Sends a reply to who asked; whether that was possible."""


class Refusals:
    """The lines of all participants, each written by a task while anything is in it."""

    def __init__(self, send: Send) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._send = send
        self._lines: dict[str, deque[tuple[ExecutionReply, ReturnAddress]]] = {}
        self._takers: dict[str, None] = {}
        self._moved = asyncio.Event()

    def took(self, participant: str) -> None:
        """A participant has taken a reply."""
        if participant not in self._takers:
            self._takers[participant] = None
            if len(self._takers) > MOST_KNOWN:
                del self._takers[next(iter(self._takers))]

    async def put(self, reply: ExecutionReply, to: ReturnAddress) -> bool:
        """Have ``reply`` sent in its turn; ``False`` where it is given up."""
        participant = to.participant
        until = asyncio.get_running_loop().time() + PATIENCE
        while len(self._lines.get(participant, ())) >= LINE:
            if participant not in self._takers:
                return False
            if not await self._moves(until):
                self._takers.pop(participant, None)
        line = self._lines.get(participant)
        if line is None:
            line = self._lines[participant] = deque()
            task = asyncio.get_running_loop().create_task(self._write(participant, line))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        line.append((reply, to))
        return True

    async def _moves(self, until: float) -> bool:
        self._moved.clear()
        try:
            async with asyncio.timeout_at(until):
                await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def _write(self, participant: str, line: deque[tuple[ExecutionReply, ReturnAddress]]) -> None:
        while line:
            reply, to = line.popleft()
            try:
                if await self._send(reply, to):
                    self.took(participant)
            except Exception:  # the plugin boundary: the next one may have better luck
                log.exception("a refusal could not be sent on the databus")
            self._moved.set()
            await asyncio.sleep(0)  # a reply that is written at once leaves nobody a turn
        del self._lines[participant]

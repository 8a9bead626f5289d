"""The requests that are being answered now: by whom they were sent, and by which id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any

from enginehost.caller import Caller, anonymous
from enginehost.databus.metadata import RequestMetadata
from enginehost.databus.port import ExecutionRequest
from enginehost.databus.replies import ReturnAddress
from enginehost.databus.streams import Credit

log = logging.getLogger("enginehost.databus")

BUS_CALLER = anonymous("databus")
"""Who calls from the bus without a signature."""

Known = tuple[str, str, str]
"""What tells one request from others: the key it is signed with, its requester, its id."""


def known_as(request: ExecutionRequest, metadata: RequestMetadata) -> Known:
    """What a request, or a control of it, says that it is."""
    return metadata.key, metadata.requester or request.participant or request.source, request.request_id


class Ended(Enum):
    """Why a call was ended before it answered."""

    CANCELLED = "cancelled"
    GONE = "gone"
    STOPPED = "stopped"


class Running:
    """A request on its way through the host.

    ``caller`` is whose call it is, once that is known. ``sequence`` is that of the latest reply of a stream.
    ``held`` is set when one with ``hold`` may run. ``begun``: its task runs; ``ran``: so does the function,
    perhaps. ``over``: its final reply is being sent. ``ended``: why it is cut short.
    """

    __slots__ = (
        "begun",
        "caller",
        "credit",
        "ended",
        "held",
        "known",
        "metadata",
        "name",
        "over",
        "ran",
        "request",
        "sequence",
        "task",
        "to",
    )

    def __init__(self, request: ExecutionRequest, metadata: RequestMetadata, name: str) -> None:
        self.request = request
        self.metadata = metadata
        self.name = name
        self.known = known_as(request, metadata)
        self.to = ReturnAddress.of(request, metadata)
        self.caller: Caller = BUS_CALLER
        self.credit = Credit(metadata.credit) if metadata.stream and metadata.credit else None
        self.sequence = 0
        self.held = asyncio.Event() if metadata.ack and metadata.hold else None
        self.begun = False
        self.ran = False
        self.over = False
        self.ended: Ended | None = None
        self.task: asyncio.Task[None] | None = None

    def end(self, why: Ended) -> None:
        """Cut it short, unless it has answered. One that has not begun sees that when it does."""
        if self.over or self.ended is not None:
            return
        self.ended = why
        if self.begun and self.task is not None:
            self.task.cancel()


class Crowd:
    """Running requests, also by participant and by what they are known as."""

    def __init__(self) -> None:
        self.all: set[Running] = set()
        self._of: dict[str, set[Running]] = {}
        self._by: dict[Known, Running] = {}

    def __len__(self) -> int:
        return len(self.all)

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Their tasks."""
        return {one.task for one in self.all if one.task is not None}

    def of(self, participant: str) -> Sequence[Running]:
        """Those of a participant."""
        return tuple(self._of.get(participant, ()))

    def share(self, participant: str) -> int:
        """How many of them are of a participant."""
        return len(self._of.get(participant, ()))

    def find(self, known: Known) -> Running | None:
        """The one that is known so."""
        return self._by.get(known)

    def start(self, running: Running, work: Callable[[Running], Coroutine[Any, Any, None]]) -> None:
        """Run ``work`` as a task of it."""
        task = running.task = asyncio.get_running_loop().create_task(work(running))
        self.all.add(running)
        self._by.setdefault(running.known, running)
        ours = self._of.get(running.to.participant)
        if ours is None:
            ours = self._of[running.to.participant] = set()
        ours.add(running)
        task.add_done_callback(lambda done: self._ended(running, done))

    def _ended(self, running: Running, task: asyncio.Task[None]) -> None:
        self.all.discard(running)
        if self._by.get(running.known) is running:
            del self._by[running.known]
        ours = self._of[running.to.participant]
        ours.discard(running)
        if not ours:
            del self._of[running.to.participant]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a reply on the databus failed", exc_info=error)

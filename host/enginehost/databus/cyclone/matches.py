"""Who is at the other end of our readers and writers, kept up to date by a thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cyclonedds.core import DDSStatus
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy
from cyclonedds.sub import DataReader

from enginehost.databus.cyclone.announced import read
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.waits import Waits, keep_on, post
from enginehost.databus.pause import BEAT, GAP, clock

SETTLE_SECONDS = 0.5
"""After this process stood still, until it has heard who took it for gone meanwhile."""

_BEAT_NS = int(BEAT * 1e9)
_HANDLES = 2**64
"""Handles are unsigned; the library gives lists of them as signed ones."""

MOST_KNOWN = 4_096
"""Endpoints of others that are remembered after they left."""


@dataclass(frozen=True, slots=True)
class Remote:
    """An endpoint of somebody else: its participant, and the user data that it was made with."""

    participant: str
    user_data: bytes = b""


Change = Callable[[Mapping[int, Remote], frozenset[str]], None]
"""Hears, on the event loop, of new endpoints by handle, and of participants of which none is left."""


def matched(handles: Callable[[], list[int]]) -> list[int]:
    """The handles that the library's ``get_matched_…`` gives.

    It counts them and then fills as many places: one that is discovered in between has it fail.
    """
    while True:
        with suppress(IndexError):
            return handles()


class Matches:
    """The endpoints that are matched with one reader or writer of ours."""

    def __init__(self, endpoint: DataWriter[Any] | DataReader[Any], change: Change | None = None) -> None:
        self.endpoint = endpoint
        self.participants: frozenset[str] = frozenset()
        """Those who are there now, as the event loop knows it."""
        self._change = change
        self._present: dict[int, Remote] = {}
        self._known: dict[int, Remote] = {}
        self._changed = asyncio.Event()
        writes = isinstance(endpoint, DataWriter)
        self._handles: Callable[[], list[int]] = (
            endpoint.get_matched_subscriptions if writes else endpoint.get_matched_publications
        )
        self._data: Callable[[int], Any] = (
            endpoint.get_matched_subscription_data if writes else endpoint.get_matched_publication_data
        )
        endpoint.status_mask = DDSStatus.PublicationMatched if writes else DDSStatus.SubscriptionMatched

    def __len__(self) -> int:
        return len(self._present)

    def participant(self, handle: int) -> str | None:
        """Whose endpoint that is, or was, on any thread; ``None`` where that is not known any more."""
        remote = self._known.get(handle) or self._look_up(handle)
        return remote.participant if remote else None

    async def wait(self, participant: str, until: float) -> bool:
        """Wait until ``participant`` (empty: anybody) is there, up to a time of the event loop's clock."""
        if self._there(participant):
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not self._there(participant):
                    self._changed.clear()
                    await self._changed.wait()
        return self._there(participant)

    def _there(self, participant: str) -> bool:
        return participant in self.participants if participant else bool(self.participants)

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Find out who is there now; on the thread of :class:`Discovery`."""
        self.endpoint.take_status()
        handles = [handle % _HANDLES for handle in matched(self._handles)]
        remotes = {handle: remote for handle in handles if (remote := self._look_up(handle))}
        post(loop, self._apply, remotes)

    def _look_up(self, handle: int) -> Remote | None:
        known = self._known.get(handle)
        if known is not None:
            return known
        found = read(self._data, handle)
        if found is None:
            return None
        data = found.qos[Policy.Userdata].data if Policy.Userdata in found.qos else b""
        remote = self._known[handle] = Remote(str(found.participant_key), bytes(data))
        return remote

    def _apply(self, remotes: dict[int, Remote]) -> None:
        new = {handle: remote for handle, remote in remotes.items() if handle not in self._present}
        before = self.participants
        self._present = remotes
        self.participants = frozenset(remote.participant for remote in remotes.values())
        self._forget()
        self._changed.set()
        if self._change is not None:
            self._change(new, before - self.participants)

    def _forget(self) -> None:
        too_many = len(self._known) - len(self._present) - MOST_KNOWN
        if too_many > 0:
            left = (handle for handle in list(self._known) if handle not in self._present)
            for handle in itertools.islice(left, too_many):
                self._known.pop(handle, None)


class Discovery:
    """The thread that hears of matches.

    It also notices when this process stood still: then others may have taken it for gone, and will discover
    it once more; what is written before that reaches nobody, without anybody noticing.
    """

    def __init__(self, participant: Participant) -> None:
        self._waits = Waits(participant.entity)
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, Matches] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # an endpoint is not deleted while the thread asks it
        self._beat = clock()
        self._settled_at = 0.0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="databus-discovery", daemon=True)
        self._thread.start()

    def watch(self, endpoint: DataWriter[Any] | DataReader[Any], change: Change | None = None) -> Matches:
        """Keep track of who is matched with ``endpoint`` until :meth:`forget`."""
        matches = Matches(endpoint, change)
        number = next(self._numbers)
        with self._lock:
            self._watched[number] = matches
        self._waits.attach(endpoint, number)
        return matches

    def forget(self, matches: Matches) -> None:
        """Its endpoint is going to be deleted."""
        self._waits.detach(matches.endpoint)
        with self._lock:
            self._watched = {number: m for number, m in self._watched.items() if m is not matches}

    @property
    def settled(self) -> bool:
        """Whether what is known of matches holds: this process has not just stood still."""
        now = clock()
        return now - self._beat < GAP and now >= self._settled_at

    def close(self) -> None:
        """Stop; takes as long as one look."""
        self._stopping = True
        self._waits.wake()
        self._thread.join()
        self._waits.close()

    def _run(self) -> None:
        keep_on(self._step, lambda: self._stopping)

    def _step(self) -> None:
        try:
            for number in self._waits.wait(_BEAT_NS):
                with self._lock:
                    if (matches := self._watched.get(number)) is not None:
                        matches.look(self._loop)
        finally:
            now = clock()
            if now - self._beat >= GAP:
                self._settled_at = now + SETTLE_SECONDS
            self._beat = now

"""Capabilities of everybody, from a reader that is made anew where its picture has become wrong.

Where a writer's liveliness is lost, all its instances count as gone. When it is regained (the peer, or this
process, had only stood still, or a network was cut for a moment) the library does not bring them back at
readers that are there already (measured), and it hears of the writer again only when that writes: only a new
reader makes it. So while some writer is not heard of, new readers are tried, each after a longer pause.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from cyclonedds._clayer import ddspy_take
from cyclonedds.core import DDSStatus, InstanceState, ReadCondition
from cyclonedds.sub import DataReader

from enginehost.databus.cyclone.announced import read
from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.cyclone.intake import ANY
from enginehost.databus.cyclone.matches import MOST_KNOWN
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.qos import CAPABILITY_READER
from enginehost.databus.cyclone.waits import FOR_EVER_NS, Waits, keep_on, post
from enginehost.databus.port import Capability, Instance, InstanceWatcher, Sighting, Watcher
from enginehost.databus.struct import Struct
from enginehost.databus.types import FUNCTION_CAPABILITY

log = logging.getLogger("enginehost.databus")

BATCH = 64
"""Sightings that are handed over in one go."""
BATCHES_AHEAD = 4
"""Batches that may wait for the event loop."""

ANEW_SECONDS = 2.0
"""At least so long stands a reader that was made anew."""
FIRST_TRY_SECONDS = 0.3
"""After a loss, before the first new reader is tried; each further pause is twice as long."""
LONGEST_TRY_SECONDS = 16.0

CODEC = Codec(FUNCTION_CAPABILITY)
MEMBERS = attrgetter(*(member.name for member in FUNCTION_CAPABILITY.members))


class Subject:
    """What is watched: a durable topic whose first member is its key, and how its instances are told."""

    def __init__(self, topic: str, struct: Struct) -> None:
        self.topic = topic
        self.struct = struct
        self.codec = Codec(struct)
        self._names = [member.name for member in struct.members]

    def told(self, key: str, members: list[Any] | None, participant: str, *, lost: bool) -> Any:
        """One instance."""
        values = None if members is None else dict(zip(self._names, members, strict=True))
        return Instance(key, values, participant, lost)


class _Capabilities(Subject):
    def told(self, key: str, members: list[Any] | None, participant: str, *, lost: bool) -> Any:
        return Sighting(key, None if members is None else Capability(*members), participant, lost)


CAPABILITIES = _Capabilities(FUNCTION_CAPABILITY.name, FUNCTION_CAPABILITY)

_SAMPLES, _LIVELINESS = 1, 2


class _Sight:
    """A reader, and how many writers it has that are alive, and that are not."""

    def __init__(self, participant: Participant, subject: Subject) -> None:
        self._participant = participant
        self.reader: DataReader[Any] = participant.reader(
            participant.topic(subject.struct, subject.topic), CAPABILITY_READER
        )
        self.reader.status_mask = DDSStatus.LivelinessChanged
        self.condition = ReadCondition(self.reader, ANY)
        self.alive = self.lost = 0

    def look(self) -> bool:
        """Whether, among those that were lost, one is alive again."""
        self.reader.take_status()
        status: Any = self.reader.get_liveliness_changed_status()
        back = self.lost > 0 and status.alive_count > self.alive
        self.alive, self.lost = int(status.alive_count), int(status.not_alive_count)
        return back

    def delete(self) -> None:
        self.condition.__del__()
        self._participant.delete(self.reader)


class Watching:
    """The thread that takes and decodes instances, and hands them to ``watcher`` on the event loop."""

    def __init__(
        self,
        participant: Participant,
        watcher: Watcher | InstanceWatcher,
        subject: Subject = CAPABILITIES,
    ) -> None:
        self._subject = subject
        self.malformed = 0
        self.anew = 0
        self._participant = participant
        self._watcher: Any = watcher
        self._loop = asyncio.get_running_loop()
        self._waits = Waits(participant.entity)
        self._ahead = threading.Semaphore(BATCHES_AHEAD)
        self._writers: dict[int, str] = {}
        self._sight = _Sight(participant, subject)
        self._candidate: _Sight | None = None
        self._made = time.monotonic()
        self._pause = FIRST_TRY_SECONDS
        self._try_at = float("inf")
        self._anew_at = float("inf")
        self._asked: deque[asyncio.Future[None]] = deque()
        self._stopping = False
        self._attach()
        self._thread = threading.Thread(target=self._run, name="databus-watcher", daemon=True)
        self._thread.start()

    @property
    def writers(self) -> int:
        """Programs that offer functions now."""
        return self._sight.alive

    async def again(self) -> None:
        """Make the reader anew."""
        asked: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(asked)
        self._waits.wake()
        await asked

    async def close(self) -> None:
        """Stop, and delete the reader."""
        self._stopping = True
        self._waits.wake()
        self._ahead.release()
        await asyncio.to_thread(self._thread.join)
        self._detach()
        for sight in (self._sight, self._candidate):
            if sight is not None:
                await asyncio.to_thread(sight.delete)
        self._waits.close()
        for asked in self._asked:
            asked.cancel()

    def _run(self) -> None:
        keep_on(self._step, lambda: self._stopping)

    def _step(self) -> None:
        tags = self._waits.wait(self._timeout())
        if _LIVELINESS in tags:
            self._look()
        if not self._stopping:
            self._decide()
        if _SAMPLES in tags:
            self._take_all()

    def _timeout(self) -> int:
        due = min(self._try_at, self._anew_at)
        return FOR_EVER_NS if due == float("inf") else max(0, int((due - time.monotonic()) * 1e9))

    def _look(self) -> None:
        had_lost = self._sight.lost
        if self._sight.look():
            self._anew_at = self._made + ANEW_SECONDS
        if self._sight.lost > had_lost:
            self._pause = FIRST_TRY_SECONDS
            self._try_at = time.monotonic() + self._pause
        if not self._sight.lost:
            self._try_at = float("inf")

    def _decide(self) -> None:
        now = time.monotonic()
        asked = [self._asked.popleft() for _ in range(len(self._asked))]
        if asked or now >= self._anew_at:
            self._renew()
            self._post(lambda: [one.set_result(None) for one in asked if not one.done()])
        elif now >= self._try_at:
            self._drop_candidate()
            self._candidate = _Sight(self._participant, self._subject)
            self._pause = min(2 * self._pause, LONGEST_TRY_SECONDS)
            self._try_at = now + self._pause
        elif self._try_at == float("inf"):
            self._drop_candidate()

    def _renew(self) -> None:
        """The new reader first, so that there is always one; then everything it sees."""
        old = self._sight
        new, self._candidate = self._candidate or _Sight(self._participant, self._subject), None
        self._detach()
        self._sight = new
        self._made = time.monotonic()
        self._anew_at = self._try_at = float("inf")
        self._post(self._watcher.anew)
        self.anew += 1
        self._attach()
        old.delete()
        self._look()

    def _drop_candidate(self) -> None:
        candidate, self._candidate = self._candidate, None
        if candidate is not None:
            candidate.delete()

    def _attach(self) -> None:
        self._waits.attach(self._sight.condition, _SAMPLES)
        self._waits.attach(self._sight.reader, _LIVELINESS)

    def _detach(self) -> None:
        self._waits.detach(self._sight.condition)
        self._waits.detach(self._sight.reader)

    def _take_all(self) -> None:
        """Take what is there, but let a change of liveliness be looked at in between."""
        self._ahead.acquire()
        taken: Any = [] if self._stopping else ddspy_take(self._sight.reader._ref, ANY, BATCH)
        sightings: list[Any] = []
        try:
            if not isinstance(taken, int):
                sightings = [one for pair in taken if (one := self._sighting(*pair))]
        finally:
            if not sightings:
                self._ahead.release()
        if sightings:
            self._post(lambda: self._hand_over(sightings))

    def _hand_over(self, sightings: list[Any]) -> None:
        try:
            self._watcher.seen(sightings)
        finally:
            self._ahead.release()

    def _sighting(self, data: bytes, info: Any) -> Any:
        participant = self._participant_of(info.publication_handle)
        subject, codec = self._subject, self._subject.codec
        try:
            if info.valid_data and info.instance_state == InstanceState.Alive:
                members = codec.decode(data)
                return subject.told(members[0], members, participant, lost=False)
            key = codec.decode(data)[0] if info.valid_data else codec.decode_key(data)
        except ValueError as failure:
            self.malformed += 1
            what = "a malformed instance of %s on the databus was dropped: %s"
            log.warning(what, subject.topic, type(failure).__name__)
            return None
        lost = info.instance_state == InstanceState.NotAliveNoWriters
        return subject.told(key, None, participant, lost=lost)

    def _participant_of(self, writer: int) -> str:
        known = self._writers.get(writer)
        if known is None:
            found = read(self._sight.reader.get_matched_publication_data, writer)
            if found is None:
                return ""
            known = self._writers[writer] = str(found.participant_key)
            if len(self._writers) > MOST_KNOWN:
                del self._writers[next(iter(self._writers))]
        return known

    def _post(self, what: Callable[[], Any]) -> None:
        post(self._loop, what)

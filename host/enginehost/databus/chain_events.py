"""Calls as monitors see them: who called what in which chain, when, and how it ended.

An event never holds arguments, results or texts of errors.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from enginehost.call import Call
from enginehost.caller import RESERVED_SUBJECTS
from enginehost.databus.capability import shorten
from enginehost.databus.components import Shown
from enginehost.databus.outbox import Outbox
from enginehost.databus.types import CHAIN_EVENT
from enginehost.databus.unified import CHAIN, EVENT, unified
from enginehost.errors import ERROR_TABLE
from enginehost.record import RawRecord, Sink

START, COMPLETE = "FUNCTION_CALL_START", "FUNCTION_CALL_COMPLETE"

MOST_RUNNING = 16_384
"""Calls whose end is waited for; of more than that (their records were lost) the oldest are given up."""

_SOURCE_BOUND = CHAIN_EVENT.bound("source_id")


class WatchedCalls(Protocol):
    """What this needs of a host; see :class:`~enginehost.host.Host`."""

    def watch_starts(self, heard: Callable[[Call], None] | None) -> None:
        """Tell ``heard`` of each call that begins, on the event loop."""
        ...

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        """Give ``sink`` the records of calls, on the writer's thread; the result ends that."""
        ...


class _Running(NamedTuple):
    """A call whose start was told."""

    trace: int
    function_id: str
    source: str


class ChainEvents:
    """Tells of calls while anybody listens; else the call path does not even know that this exists.

    A start is told when the call begins, its end out of its record. A call of which there is no place in
    the outbox is told when it ends, if there is one then, start and end together. ``naming`` says whether
    peers may read who called.
    """

    def __init__(self, calls: WatchedCalls, outbox: Outbox, shown: Shown, *, naming: bool) -> None:
        self._calls = calls
        self._outbox = outbox
        self._shown = shown
        self._naming = naming
        self._topics: frozenset[str] = frozenset()
        self._running: dict[int, _Running] = {}
        self._chains: Counter[int] = Counter()
        """Calls of each chain that run now."""
        self._none_runs = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._forget_ends = calls.watch_ends(self._heard_ends)

    def listen(self, topics: frozenset[str]) -> None:
        """``topics`` are read from now on."""
        if bool(topics) != bool(self._topics):
            self._calls.watch_starts(self._started if topics else None)
        self._topics = topics

    async def ended(self, seconds: float) -> None:
        """Wait until the records of calls that have ended are here, but no longer than that."""
        self._none_runs.clear()
        if self._running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_runs.wait(), seconds)

    def close(self) -> None:
        """Hear of no more calls."""
        self.listen(frozenset())
        self._forget_ends()

    def _started(self, call: Call) -> None:
        if not self._outbox.room(2 * len(self._topics)):
            return  # its end is counted
        source = self._source(call.caller.subject)
        known = _Running(call.trace, self._shown.function_id(call.function), source)
        self._running[call.span] = known
        self._chains[call.trace] += 1
        self._tell(START, call.span, known, time.time())
        if len(self._running) > MOST_RUNNING:
            span = next(iter(self._running))
            lost = self._running.pop(span)
            self._tell(COMPLETE, span, lost, time.time(), "outcome_unknown", last=self._left(lost.trace))

    def _heard_ends(self, records: Sequence[RawRecord]) -> None:
        if self._topics or self._running:
            with suppress(RuntimeError):  # the loop has closed meanwhile
                self._loop.call_soon_threadsafe(self._ended, records)

    def _ended(self, records: Sequence[RawRecord]) -> None:
        for record in records:
            known = self._running.pop(record.span, None)
            if known is not None:
                last = self._left(record.trace)
            elif self._topics and (known := self._begun(record)) is not None:
                last = record.trace not in self._chains
            else:
                continue
            self._tell(COMPLETE, record.span, known, record.ended, record.outcome, last=last)
        if not self._running:
            self._none_runs.set()

    def _begun(self, record: RawRecord) -> _Running | None:
        """Tell of the start of a call that has ended; ``None`` where there is no place for both."""
        wanted = 2 * len(self._topics)
        if not self._outbox.room(wanted):
            self._outbox.dropped += wanted
            return None
        function_id = self._shown.function_id(record.function)
        known = _Running(record.trace, function_id, self._source(record.subject))
        self._tell(START, record.span, known, record.ended - record.seconds)
        return known

    def _left(self, trace: int) -> bool:
        """One call of a chain has ended; whether it was the last that ran here."""
        self._chains[trace] -= 1
        if self._chains[trace] > 0:
            return False
        del self._chains[trace]
        return True

    def _source(self, subject: str) -> str:
        return shorten(subject, _SOURCE_BOUND) if self._naming or subject in RESERVED_SUBJECTS else ""

    def _tell(
        self, event: str, span: int, known: _Running, when: float, outcome: str = "ok", *, last: bool = False
    ) -> None:
        status = 0 if outcome == "ok" else ERROR_TABLE.get(outcome, ERROR_TABLE["internal"]).bus
        timestamp = int(when * 1000)
        about: dict[str, Any] = {
            "chain_id": f"{known.trace:032x}",
            "call_id": f"{span:016x}",
            "interface_id": "",
            "primary_agent_id": "",
            "specialized_agent_ids": "",
            "function_id": known.function_id,
            "query_id": "",
            "event_type": event,
            "source_id": known.source,
            "target_id": known.function_id,
            "status": status,
        }
        if (
            CHAIN_EVENT.name in self._topics or not self._topics
        ):  # where nobody reads, the instance still ends
            self._outbox.put(CHAIN_EVENT.name, {**about, "timestamp": timestamp}, last=last, must=True)
        if EVENT in self._topics:
            severity = "ERROR" if status else "INFO"
            values = unified(
                CHAIN, about["call_id"], self._shown.host_id, timestamp, event, about, severity=severity
            )
            self._outbox.put(EVENT, values, must=True)

"""The steps of chains as monitors see them: who did what in which chain, when, how long, and how it ended.

A ``ChainEvent`` has no place for a name, a duration or an error's code: at the end of a step a
``MonitoringEvent`` tells them, and in the second era the payload does. An event never holds arguments,
results or texts of errors, unless ``values`` has switched them on.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from enginehost.call import Call
from enginehost.caller import RESERVED_SUBJECTS
from enginehost.databus.capability import shorten
from enginehost.databus.chain_words import WORDS
from enginehost.databus.components import Shown
from enginehost.databus.outbox import Outbox
from enginehost.databus.types import CHAIN_EVENT, MONITORING_EVENT
from enginehost.databus.unified import CHAIN, EVENT, unified
from enginehost.errors import ERROR_TABLE
from enginehost.record import RawRecord, Sink
from enginehost.safe_text import Redact
from enginehost.sinks import bounded
from enginehost.steps import Step, StepKind, Steps
from enginehost.values import encode

START, COMPLETE = WORDS[StepKind.CALL][:2]

MOST_RUNNING = 16_384
"""Steps whose end is waited for; of more than that (their records were lost) the oldest are given up."""

_SOURCE_BOUND = CHAIN_EVENT.bound("source_id")
_TARGET_BOUND = CHAIN_EVENT.bound("target_id")
_VALUE_BOUND = MONITORING_EVENT.bound("call_data")
_METADATA_BOUND = MONITORING_EVENT.bound("metadata")
_EVENTS = {CHAIN_EVENT.name: 2, EVENT: 2, MONITORING_EVENT.name: 1}
"""Events of one step, by topic."""


class WatchedCalls(Protocol):
    """What this needs of a host; see :class:`~enginehost.host.Host`."""

    def watch_starts(self, heard: Callable[[Call], None]) -> Callable[[], None]:
        """Tell ``heard`` of each call that begins, on the event loop; the result ends that."""
        ...

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        """Give ``sink`` the records of calls, on the writer's thread; the result ends that."""
        ...

    @property
    def steps(self) -> Steps:
        """Tells of the other steps."""
        ...


@dataclass(frozen=True, slots=True)
class _Running:
    """A step whose start was told. Names are empty where peers may not know them."""

    kind: StepKind
    trace: int
    parent: int
    function_id: str
    source: str
    name: str
    agent: str
    began: float


@dataclass(frozen=True, slots=True)
class _End:
    """How a step ended; ``given`` and ``gave`` are JSON, where content is told."""

    when: float
    seconds: float
    outcome: str
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    given: bytes = b""
    gave: bytes = b""


class ChainEvents:
    """Tells of steps while anybody listens; else the call path does not even know that this exists.

    A start is told when a step begins, the end of a call out of its record. A call of which there is no
    place in the outbox is told when it ends, if there is one then, start and end together. ``naming`` says
    whether peers may read who called; ``values`` whether they may read what went in and came out.
    """

    def __init__(
        self,
        calls: WatchedCalls,
        outbox: Outbox,
        shown: Shown,
        *,
        naming: bool,
        values: bool = False,
        redact: Redact = str,
    ) -> None:
        self._calls = calls
        self._outbox = outbox
        self._shown = shown
        self._naming = naming
        self._values = values
        self._redact = redact
        self._topics: frozenset[str] = frozenset()
        self._running: dict[int, _Running] = {}
        self._chains: Counter[int] = Counter()
        """Steps of each chain that run now."""
        self._none_runs = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._forget_starts: list[Callable[[], None]] = []
        self._forget_ends = calls.watch_ends(self._heard_ends)

    def listen(self, topics: frozenset[str]) -> None:
        """``topics`` are read from now on."""
        if topics and not self._forget_starts:
            watching = self._calls.steps.watch(self._step_began, self._step_ended, values=self._values)
            self._forget_starts = [self._calls.watch_starts(self._started), watching]
        elif not topics:
            for forget in self._forget_starts:
                forget()
            self._forget_starts = []
            for span in [span for span, one in self._running.items() if one.kind is not StepKind.CALL]:
                lost = self._running.pop(span)  # whose end nobody tells any more
                self._tell_end(span, lost, _End(time.time(), 0.0, "outcome_unknown"), self._left(lost.trace))
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

    # Beginnings

    def _started(self, call: Call) -> None:
        if not self._outbox.room(self._wanted()):
            return  # its end is counted
        function_id, name = self._shown.called(call.function)
        source, agent = self._source(call.caller.subject), call.caller.agent
        self._begin(
            call.span,
            _Running(StepKind.CALL, call.trace, call.parent, function_id, source, name, agent, time.time()),
        )

    def _step_began(self, step: Step) -> None:
        if not self._on_loop():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._step_began, step)
            return
        wanted = self._wanted()
        if not self._outbox.room(wanted):
            self._outbox.dropped += wanted
            return
        function_id, name = self._shown.step(step.kind, step.name)
        _, agent = self._shown.step(StepKind.TURN, step.agent) if step.agent else ("", "")
        if step.kind is StepKind.REQUEST:  # an agent of another host is known to all by its id
            function_id = function_id or str(step.about.get("agent_id", ""))
        known = _Running(step.kind, step.trace, step.parent, function_id, "", name, agent, step.started)
        self._begin(step.span, known)

    def _begin(self, span: int, known: _Running) -> None:
        self._running[span] = known
        self._chains[known.trace] += 1
        self._tell(WORDS[known.kind].start, span, known, known.began)
        if len(self._running) > MOST_RUNNING:
            oldest = next(iter(self._running))
            lost = self._running.pop(oldest)
            end = _End(now := time.time(), max(0.0, now - lost.began), "outcome_unknown")
            self._tell_end(oldest, lost, end, last=self._left(lost.trace))

    # Ends

    def _step_ended(self, step: Step) -> None:
        if not self._on_loop():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._step_ended, step)
            return
        known = self._running.pop(step.span, None)
        if known is None:
            return
        given, gave = (self._content(step.given), self._content(step.gave)) if self._values else (b"", b"")
        about = step.about if known.name else {}
        end = _End(step.ended, step.seconds, step.outcome, about, given, gave)
        self._tell_end(step.span, known, end, last=self._left(step.trace))

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
            given = gave = b""
            if self._values and known.function_id:
                given, gave = self._content(record.arguments), self._content(record.result)
            end = _End(record.ended, record.seconds, record.outcome, {}, given, gave)
            self._tell_end(record.span, known, end, last=last)
        if not self._running:
            self._none_runs.set()

    def _begun(self, record: RawRecord) -> _Running | None:
        """Tell of the start of a call that has ended; ``None`` where there is no place for both."""
        wanted = self._wanted()
        if not self._outbox.room(wanted):
            self._outbox.dropped += wanted
            return None
        function_id, name = self._shown.called(record.function)
        source, began = self._source(record.subject), record.ended - record.seconds
        known = _Running(StepKind.CALL, record.trace, record.parent, function_id, source, name, "", began)
        self._tell(START, record.span, known, began)
        return known

    def _left(self, trace: int) -> bool:
        """One step of a chain has ended; whether it was the last that ran here."""
        self._chains[trace] -= 1
        if self._chains[trace] > 0:
            return False
        del self._chains[trace]
        return True

    # Telling

    def _wanted(self) -> int:
        return sum(_EVENTS[topic] for topic in self._topics)

    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _source(self, subject: str) -> str:
        return shorten(subject, _SOURCE_BOUND) if self._naming or subject in RESERVED_SUBJECTS else ""

    def _content(self, value: Any) -> bytes:
        return b"" if value is None else self._redact(bounded(value).decode()).encode()

    def _tell_end(self, span: int, known: _Running, end: _End, last: bool) -> None:
        status = 0 if end.outcome == "ok" else ERROR_TABLE.get(end.outcome, ERROR_TABLE["internal"]).bus
        more = self._details(known, end)
        if MONITORING_EVENT.name in self._topics:
            self._tell_details(span, known, end, status, more)
        self._tell(WORDS[known.kind].end, span, known, end.when, status, more, last=last)

    def _details(self, known: _Running, end: _End) -> dict[str, Any]:
        return {
            "kind": str(known.kind),
            "name": known.name,
            "parent_id": f"{known.parent:016x}" if known.parent else "",
            "duration_ms": round(end.seconds * 1000, 4),
            "code": end.outcome,
            "agent": known.agent,
            "host": self._shown.host_id,
            "incarnation": self._shown.incarnation,
            "version": self._shown.version(known.name) if known.function_id else "",
            "about": dict(end.about),
        }

    def _tell_details(
        self, span: int, known: _Running, end: _End, status: int, more: Mapping[str, Any]
    ) -> None:
        words = WORDS[known.kind]
        facts = {"chain_id": f"{known.trace:032x}", "call_id": f"{span:016x}", **more}
        while len(encode(facts)) > _METADATA_BOUND and facts.get("about"):
            facts["about"] = {}
        event = {
            "event_id": f"{span:016x}",
            "timestamp": int(end.when * 1000),
            "event_type": words.event_type,
            "entity_type": words.entity_type,
            "entity_id": known.function_id,
            "metadata": shorten(encode(facts).decode(), _METADATA_BOUND),
            "call_data": shorten(end.given.decode(errors="replace"), _VALUE_BOUND),
            "result_data": shorten(end.gave.decode(errors="replace"), _VALUE_BOUND),
            "status_data": encode({"status": status, "code": end.outcome}).decode(),
        }
        self._outbox.put(MONITORING_EVENT.name, event, last=True, must=True)

    def _tell(
        self,
        event: str,
        span: int,
        known: _Running,
        when: float,
        status: int = 0,
        more: Mapping[str, Any] | None = None,
        *,
        last: bool = False,
    ) -> None:
        agent_id = self._shown.step(StepKind.TURN, known.agent)[0] if known.agent else ""
        asks = known.kind is StepKind.REQUEST
        host = self._shown.host_id if asks or not known.function_id else ""  # else the function says it
        about: dict[str, Any] = {
            "chain_id": f"{known.trace:032x}",
            "call_id": f"{span:016x}",
            "interface_id": host,
            "primary_agent_id": known.function_id if asks else agent_id,
            "specialized_agent_ids": known.function_id if known.kind is StepKind.AGENT else "",
            "function_id": known.function_id,
            "query_id": f"{known.parent:016x}" if known.parent else "",
            "event_type": event,
            "source_id": host if asks else known.source or agent_id,
            "target_id": known.function_id or shorten(known.name, _TARGET_BOUND),
            "status": status,
        }
        timestamp = int(when * 1000)
        if (
            CHAIN_EVENT.name in self._topics or not self._topics
        ):  # where nobody reads, the instance still ends
            self._outbox.put(CHAIN_EVENT.name, {**about, "timestamp": timestamp}, last=last, must=True)
        if EVENT in self._topics:
            severity = "ERROR" if status else "INFO"
            payload = {**about, **(more or {"kind": str(known.kind), "name": known.name})}
            values = unified(
                CHAIN, about["call_id"], self._shown.host_id, timestamp, event, payload, severity=severity
            )
            self._outbox.put(EVENT, values, must=True)

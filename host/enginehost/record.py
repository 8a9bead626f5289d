"""What is written down of each call: counters on the event loop, lines by a thread.

The call path appends one tuple to a queue (0.1 µs); a writer thread makes the log line and the audit
line of it. The counters are plain integers that ``/metrics`` reads when it is asked.
"""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from enginehost.errors import (
    EngineHostError,
    ExecutionFailed,
    InvalidArguments,
    InvalidRequest,
    is_failure,
    shortened,
)
from enginehost.log_stream import Unwritten
from enginehost.signature import FunctionSignature
from enginehost.tracebacks import cause_traceback

_log = logging.getLogger("enginehost.record")

BUCKETS: tuple[float, ...] = (0.0005, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0)
"""Upper bounds of the duration histogram, seconds; few, since each function has its own row."""


class Stats:
    """Counters of one function since the host started; they outlive a reload of its engine."""

    __slots__ = ("buckets", "outcomes", "running", "signature", "total_seconds")

    def __init__(self) -> None:
        self.signature: FunctionSignature | None = None
        """The function's latest one: whether somebody may view the counters of one that is gone."""
        self.outcomes: dict[str, int] = {}
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.total_seconds = 0.0
        self.running = 0

    def add(self, outcome: str, seconds: float) -> None:
        """Count one call that ended."""
        outcomes = self.outcomes
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.total_seconds += seconds

    @property
    def calls(self) -> int:
        """Calls that ended."""
        return sum(self.buckets)

    @property
    def errors(self) -> int:
        """Those of them that failed; to wait for a person is no failure."""
        return sum(count for outcome, count in self.outcomes.copy().items() if is_failure(outcome))


class RawRecord(NamedTuple):
    """One call as the call path knows it; the writer thread makes a :class:`CallRecord` of it.

    The call path queues it as a bare tuple in this order, which costs a fifth.
    """

    ended: float
    function: str
    engine_id: str
    subject: str
    tenant: str
    face: str
    span: int
    trace: int
    parent: int
    outcome: str
    seconds: float
    error: BaseException | None
    arguments: Any
    result: Any
    peer: str = ""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call that ended: who, what, when, outcome.

    ``started`` is RFC 3339 UTC; ``duration_ms`` milliseconds; ``outcome`` is ``ok`` or an error code;
    ``arguments`` and ``result`` are present only where the audit was asked to keep values.
    """

    started: str
    function: str
    engine: str
    subject: str
    tenant: str
    face: str
    call_id: str
    chain_id: str
    parent_id: str
    outcome: str
    duration_ms: float
    error: str = ""
    cause: str = ""
    """The traceback of what the function raised; for the log, never for a caller."""
    arguments: Any = None
    result: Any = None
    peer: str = ""
    """The address of a client that was refused before it was known who it is."""


_MOST_PLACES = 5


def error_text(error: BaseException, *, said: bool) -> str:
    """What a record says of an error: where arguments did not fit, not what they were.

    ``said``: also what a function said itself, which may be anything.
    """
    if isinstance(error, EngineHostError) and error.recorded:
        return error.recorded
    if isinstance(error, InvalidArguments) and error.detail.get("errors"):
        return _MISFIT
    if not said and isinstance(error, InvalidArguments | ExecutionFailed):
        return str(error.detail.get("type", error.code))
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a plugin's class may have made it to fail
        return f"({type(error).__name__} without a text)"


def error_line(error: BaseException, redact: Callable[[str], str], *, said: bool) -> str:
    """:func:`error_text` for a line: without known secrets, and not too long."""
    return shortened(redact(error_text(error, said=said)))


def keep_places(error: InvalidArguments, arguments: Any, declared: Container[str]) -> None:
    """Let the records of ``error`` say where the arguments of a call do not fit.

    Of a place are named the properties that are ``declared``, and indexes of lists; other keys are the
    caller's own data.
    """
    found = error.detail.get("errors")
    if error.recorded or not found:
        return
    pointers = [str(one.get("pointer", "")) for one in found]
    places = dict.fromkeys(_place(pointer, arguments, declared) or "the top" for pointer in pointers)
    told = list(places)[:_MOST_PLACES]
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    error.recorded = f"{_MISFIT} at {', '.join(told)}{more}"


def _place(pointer: str, value: Any, declared: Container[str]) -> str:
    place = ""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list | tuple) and key.isdecimal():
            items = cast("Sequence[Any]", value)
            value = items[int(key)] if len(key) < _MOST_DIGITS and int(key) < len(items) else None
            place += f"/{step}"
        else:
            value = cast("Mapping[Any, Any]", value).get(key) if isinstance(value, Mapping) else None
            place += f"/{step}" if key in declared else "/*"
    return place


_MISFIT = "the arguments do not fit"
_MOST_DIGITS = 12
"""Digits of the index of any list there is."""


_OWN_CAUSES = (CancelledError, EngineHostError)
"""How the host itself ends a call; a traceback of that tells nobody anything."""


def cause_text(error: BaseException | None, limit: int = 8000, redact: Callable[[str], str] = str) -> str:
    """The traceback of what a function raised behind an error, its last ``limit`` characters.

    It shows the frames of the function's author where there are any, without those of the host. It keeps
    paths, for those who read the log, and no known secret.
    """
    cause = error.__cause__ if error is not None else None
    if cause is None or isinstance(cause, _OWN_CAUSES) or isinstance(error, InvalidRequest):
        return ""  # of what a caller sent, the message says all
    # a secret that the first cut halves is far before what the second one leaves
    return redact(cause_traceback(cause)[-100 * limit :])[-limit:]


Sink = Callable[[Sequence[RawRecord]], None]
"""Takes a batch of records, on the writer thread.

Raises :class:`Untaken` or ``Unwritten`` where that fails for some of them, anything where it fails for all.
"""


class Untaken(RuntimeError):
    """``lost`` records of a batch could not be taken."""

    def __init__(self, message: str, lost: int) -> None:
        super().__init__(message)
        self.lost = lost


def call_record(raw: RawRecord, redact: Callable[[str], str] = str) -> CallRecord:
    """The record in its public form; ``redact`` takes known secrets out of what it says of an error."""
    error = raw.error
    return CallRecord(
        started=datetime.fromtimestamp(raw.ended - raw.seconds, UTC).isoformat(timespec="microseconds"),
        function=raw.function,
        engine=raw.engine_id,
        subject=raw.subject,
        tenant=raw.tenant,
        face=raw.face,
        call_id=f"{raw.span:016x}",
        chain_id=f"{raw.trace:032x}",
        parent_id=f"{raw.parent:016x}" if raw.parent else "",
        outcome=raw.outcome,
        duration_ms=round(raw.seconds * 1000, 4),
        error=error_line(error, redact, said=True) if error is not None else "",
        cause=cause_text(error, redact=redact),
        arguments=raw.arguments,
        result=raw.result,
        peer=raw.peer,
    )


class Recorder:
    """Hands records from the event loop to the sinks.

    The queue holds ``capacity`` records. Where ``lossless`` (an audit is kept) a full queue makes the
    caller's thread write; otherwise the record is dropped. What is lost is counted in :attr:`dropped`.
    """

    def __init__(self, sinks: Iterable[Sink], *, lossless: bool, capacity: int = 100_000) -> None:
        self.sinks = list(sinks)
        self._lossless = lossless
        self._capacity = capacity
        self._queue: deque[tuple[Any, ...]] = deque()
        self._wake = threading.Event()
        self._signalled = False
        self._writing = threading.Lock()
        """One writer at a time, so that lines keep their order."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="enginehost-records", daemon=True)
        self._failing: dict[int, int] = {}
        """Records that a sink has lost, by its place, since it last took some."""
        self._refused = 0
        self._lost = 0

    @property
    def dropped(self) -> int:
        """Records that were lost, in the queue or by a sink."""
        return self._refused + self._lost

    def add(self, sink: Sink) -> Callable[[], None]:
        """Give records to ``sink`` too, after the others, until the returned function is called."""
        self.sinks = [*self.sinks, sink]

        def remove() -> None:
            self.sinks = [one for one in self.sinks if one is not sink]

        return remove

    def start(self) -> None:
        """Start the writer thread."""
        self._thread.start()

    def put(self, raw: tuple[Any, ...]) -> None:
        """Take one record (the members of a :class:`RawRecord`).

        Never blocks unless ``lossless`` and full.
        """
        queue = self._queue
        if self._stopping:
            self._refused += 1
            _log.warning("a call of %s ended after the host had stopped and is not recorded", raw[1])
            return
        if len(queue) >= self._capacity:
            if not self._lossless:
                self._refused += 1
                return
            self.flush()
        queue.append(raw)
        if not self._signalled:
            self._signalled = True
            self._wake.set()

    def flush(self) -> None:
        """Write all that is queued, on this thread."""
        with self._writing:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), 1000))]
                self._write(batch)

    def stop(self) -> None:
        """Write what is left and end the thread. Records that come later are dropped and counted."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(10)
        self.flush()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait()
            self._wake.clear()
            self._signalled = False
            self.flush()
            # Collect for a moment: one write for many calls under load.
            threading.Event().wait(0.02)

    def _write(self, batch: list[tuple[Any, ...]]) -> None:
        records = [RawRecord._make(raw) for raw in batch]
        for place, sink in enumerate(self.sinks):
            try:
                sink(records)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the others go on, and so does this thread
                lost = error.lost if isinstance(error, Untaken | Unwritten) else len(records)
                self._failed(place, error, lost)
            else:
                if place in self._failing:
                    lost = self._failing.pop(place)
                    _log.warning("call records are written again; %d of them were lost", lost)

    def _failed(self, place: int, error: BaseException, lost: int) -> None:
        self._lost += lost
        if place not in self._failing:  # a full disk fails often: said once, and once more when it is over
            traceback = None if isinstance(error, Unwritten) else error
            _log.error("call records cannot be written: %s", error, exc_info=traceback)
        self._failing[place] = self._failing.get(place, 0) + lost

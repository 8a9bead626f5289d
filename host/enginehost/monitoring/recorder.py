"""Records the chains of a host: what its calls and steps tell, into the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from enginehost.call import Call
from enginehost.catalog import Catalog
from enginehost.monitoring.seen import Seen
from enginehost.monitoring.versions import Versions
from enginehost.monitoring.writer import ChainWriter
from enginehost.record import RawRecord, Sink
from enginehost.safe_text import Redact
from enginehost.sinks import bounded
from enginehost.steps import Step, StepKind, Steps
from enginehost.values import encode

_MOST_NAME = 256
LOCAL = "local"
"""The host of a step that was recorded on no bus."""


class RecordedHost(Protocol):
    """What recording needs of a host."""

    catalog: Catalog

    @property
    def redactor(self) -> Redact:
        """Takes known secrets out of a text."""
        ...

    @property
    def steps(self) -> Steps:
        """Tells of steps that are no calls."""
        ...

    def watch_starts(self, heard: Callable[[Call], None]) -> Callable[[], None]:
        """``Host.watch_starts``."""
        ...

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        """``Host.watch_ends``."""
        ...


class _Begun(NamedTuple):
    call: tuple[int, int, int]
    function: str
    subject: str
    agent: str
    when: float


class ChainRecorder:
    """From :meth:`start` to :meth:`stop`. ``place`` gives the host's id on the bus and its incarnation."""

    def __init__(
        self, host: RecordedHost, writer: ChainWriter, place: Callable[[], tuple[str, str]], *, values: bool
    ) -> None:
        self.writer = writer
        self._host, self._place, self._values = host, place, values
        self._versions = Versions()
        self._forget: list[Callable[[], None]] = []

    def start(self) -> None:
        """Record from now on; what an earlier start of this host left unfinished is told to be lost."""
        host = self._host
        if self._place()[0] != LOCAL:
            self.writer.close_lost(*self._place())
        self._forget = [
            host.watch_starts(self._started),
            host.watch_ends(self._ended),
            host.steps.watch(self._step, self._step, values=self._values),
        ]

    def stop(self) -> None:
        """Record no more; what was seen is written. Blocks: it belongs on a thread."""
        for forget in self._forget:
            forget()
        self._forget = []
        self.writer.close()

    def _started(self, call: Call) -> None:
        caller = call.caller
        begun = _Begun(
            (call.trace, call.span, call.parent), call.function, caller.subject, caller.agent, time.time()
        )
        self.writer.put(self._of_start, begun)

    def _ended(self, records: Sequence[RawRecord]) -> None:
        for record in records:
            self.writer.put(self._of_end, record)

    def _step(self, step: Step) -> None:
        ended = bool(step.outcome and step.ended)
        self.writer.put(self._of_end_of_step if ended else self._of_step, step)

    # On the writer's thread

    def _of_start(self, begun: _Begun) -> Iterable[Seen]:
        trace, span, parent = begun.call
        host, start = self._place()
        yield Seen(
            chain=f"{trace:032x}",
            call=f"{span:016x}",
            parent=_id(parent),
            kind=str(StepKind.CALL),
            name=begun.function[:_MOST_NAME],
            host=host,
            start=start,
            source=begun.subject,
            agent=begun.agent,
            started=begun.when,
        )

    def _of_end(self, record: RawRecord) -> Iterable[Seen]:
        host, start = self._place()
        yield Seen(
            chain=f"{record.trace:032x}",
            call=f"{record.span:016x}",
            parent=_id(record.parent),
            kind=str(StepKind.CALL),
            name=record.function[:_MOST_NAME],
            host=host,
            start=start,
            source=record.subject,
            started=record.ended - record.seconds,
            ended=record.ended,
            seconds=record.seconds,
            outcome=record.outcome,
            version=self._version(record.function),
            about=_json({"engine": record.engine_id, "face": record.face}),
            given=self._content(record.arguments),
            gave=self._content(record.result),
        )

    def _of_step(self, step: Step) -> Iterable[Seen]:
        host, start = self._place()
        yield Seen(
            chain=f"{step.trace:032x}",
            call=f"{step.span:016x}",
            parent=_id(step.parent),
            kind=str(step.kind),
            name=step.name[:_MOST_NAME],
            host=host,
            start=start,
            agent=step.agent,
            started=step.started,
        )

    def _of_end_of_step(self, step: Step) -> Iterable[Seen]:
        for seen in self._of_step(step):
            yield replace(
                seen,
                ended=step.ended,
                seconds=step.seconds,
                outcome=step.outcome,
                version=self._version(step.name),
                about=_json(step.about),
                given=self._content(step.given),
                gave=self._content(step.gave),
            )

    def _version(self, name: str) -> str:
        entry = self._host.catalog.get(name)
        return self._versions.of(entry.signature) if entry is not None else ""

    def _content(self, value: Any) -> str:
        if value is None or not self._values:
            return ""
        return self._host.redactor(bounded(value).decode(errors="replace"))


def _id(span: int) -> str:
    return f"{span:016x}" if span else ""


def _json(about: dict[str, Any]) -> str:
    known = {name: value for name, value in about.items() if value}
    return encode(known, allow_nan=True).decode() if known else ""

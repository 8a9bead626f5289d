"""Who called whom in a host, since it started: counts, errors, the last time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from enginehost.errors import WaitsForPerson, is_failure
from enginehost.record import RawRecord, Sink
from enginehost.steps import DECIDES, Step, StepKind, Steps

MOST_EDGES = 10_000
"""Pairs that are counted one by one; further ones are left out, and counted together."""
MOST_DECIDED = 200
"""Decisions of people that are remembered."""
_MOST_PENDING = 10_000
_PENDING_SECONDS = 60.0
_BY_STEPS = (StepKind.TOOL, StepKind.AGENT, StepKind.MODEL)


class Edge(NamedTuple):
    """``source_kind`` is ``caller``, ``function`` or ``agent``; ``target_kind`` ``function`` or ``model``."""

    source_kind: str
    source: str
    target_kind: str
    target: str


@dataclass(slots=True)
class Count:
    """``waits``: calls that ended since a person has to decide something; ``last`` in seconds since 1970."""

    calls: int = 0
    errors: int = 0
    waits: int = 0
    last: float = 0.0


class Decided(NamedTuple):
    """A person's decision, made in ``chain``, about a question of ``agent`` in the chain ``of``."""

    agent: str
    decision: str
    chain: str
    of: str
    when: float


class WatchedHost(Protocol):
    """What the book needs of a host."""

    @property
    def steps(self) -> Steps:
        """Tells of steps that are no calls."""
        ...

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        """``Host.watch_ends``."""
        ...


class _Child(NamedTuple):
    function: str
    subject: str
    outcome: str
    ended: float


class Network:
    """The book of who called whom. A call within another is entered when that one ends and has a name."""

    def __init__(self, host: WatchedHost) -> None:
        self.left_out = 0
        self._waiting: OrderedDict[str, int] = OrderedDict()
        """Chains of requests that wait at an agent of another host, by their conversation."""
        self._decided: deque[Decided] = deque(maxlen=MOST_DECIDED)
        self._edges: dict[Edge, Count] = {}
        self._pending: OrderedDict[int, list[_Child]] = OrderedDict()
        self._tools: OrderedDict[int, None] = OrderedDict()
        """Spans of steps whose calls are entered by the step itself."""
        self._requests: OrderedDict[int, None] = OrderedDict()
        """Spans of requests, whose calls are their subject's."""
        self._lock = threading.Lock()
        host.watch_ends(self._ended)
        host.steps.watch(self._began, self._step)

    def edges(self) -> dict[Edge, Count]:
        """The book as it is now; a call whose caller's end is awaited for long is its subject's."""
        with self._lock:
            before = time.time() - _PENDING_SECONDS
            for span in [span for span, waits in self._pending.items() if waits[-1].ended < before]:
                self._settle(self._pending.pop(span), None)
            return {edge: replace(one) for edge, one in self._edges.items()}

    def decided(self) -> list[Decided]:
        """The latest decisions, the last one last."""
        return list(self._decided)

    def _ended(self, records: Sequence[RawRecord]) -> None:
        with self._lock:
            for record in records:
                child = _Child(record.function, record.subject, record.outcome, record.ended)
                if waiting := self._pending.pop(record.span, None):
                    self._settle(waiting, record.function)
                if not record.parent or record.parent in self._requests:
                    self._settle([child], None)
                elif record.parent not in self._tools:
                    self._pending.setdefault(record.parent, []).append(child)
                    if len(self._pending) > _MOST_PENDING:
                        self._settle(self._pending.popitem(last=False)[1], None)

    def _began(self, step: Step) -> None:
        spans = self._requests if step.kind is StepKind.REQUEST else self._tools
        if step.kind in (StepKind.TOOL, StepKind.AGENT, StepKind.REQUEST):
            with self._lock:
                spans[step.span] = None
                if len(spans) > _MOST_PENDING:
                    spans.popitem(last=False)

    def _step(self, step: Step) -> None:
        if step.kind in _BY_STEPS and step.agent:
            target = "model" if step.kind is StepKind.MODEL else "function"
            with self._lock:
                self._enter(Edge("agent", step.agent, target, step.name), step.outcome, step.ended)
        elif step.kind is StepKind.CHOICE and step.about.get("role") == DECIDES:
            chain, of = f"{step.trace:032x}", str(step.about["chain"])
            self._decided.append(Decided(step.agent, step.name, chain, of, step.ended))
        elif step.kind is StepKind.REQUEST and step.about.get("agent_id"):
            self._asked(step, str(step.about.get("conversation", "")))

    def _asked(self, request: Step, conversation: str) -> None:
        """A request to another host, which hears of decisions itself, has ended."""
        decision, of = str(request.about.get("decision", "")), self._waiting.get(conversation)
        if request.outcome == WaitsForPerson.code and not decision:
            self._waiting[conversation] = request.trace
            if len(self._waiting) > _MOST_PENDING:
                self._waiting.popitem(last=False)
        elif decision and of is not None and request.outcome in ("ok", WaitsForPerson.code):
            chain = f"{request.trace:032x}"
            self._decided.append(Decided(request.name, decision, chain, f"{of:032x}", request.ended))

    def _settle(self, children: Sequence[_Child], function: str | None) -> None:
        for one in children:
            source = ("caller", one.subject) if function is None else ("function", function)
            self._enter(Edge(*source, "function", one.function), one.outcome, one.ended)

    def _enter(self, edge: Edge, outcome: str, ended: float) -> None:
        count = self._edges.get(edge)
        if count is None:
            if len(self._edges) >= MOST_EDGES:
                self.left_out += 1
                return
            count = self._edges[edge] = Count()
        count.calls += 1
        count.errors += is_failure(outcome)
        count.waits += outcome == WaitsForPerson.code
        count.last = max(count.last, ended)

"""The books of one turn: its calls and what has come of each, as its rows tell.

Whoever takes a turn over reads them from the store; whoever runs it keeps them as it writes. Of the rows
only what the books need stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from enginehost.agents.rows import Decision, Question, decision_of, tool_of
from enginehost.llm.message import Message, Role, Status, Type, Usage
from enginehost.store.port import Owner

_PAGE = 20
"""Rows read at once; a row may have a megabyte."""


class Pages(Protocol):
    """What the books are read from."""

    async def history(
        self, session: str, owner: Owner, *, after: int = 0, before: int | None = None, limit: int = 100
    ) -> list[Message]:
        """See :class:`~enginehost.store.port.Store`."""
        ...


@dataclass(slots=True, eq=False)
class CallState:
    """One tool call of the turn. ``begun``: the epoch in which it last began to run, where that is kept."""

    call: Message
    settled: bool = False
    begun: int = 0
    questions: dict[str, Message] = field(default_factory=dict[str, Message])
    """What was asked about it, by the question's id."""
    decisions: dict[str, Message] = field(default_factory=dict[str, Message])
    """What was decided, by the question's id."""

    @property
    def id(self) -> str:
        """The call's id."""
        return self.call.call_id

    @property
    def tool(self) -> str:
        """The function's name, as the model gave it."""
        return tool_of(self.call)

    @property
    def waits(self) -> bool:
        """Whether a question about it has no decision."""
        return not self.settled and not self.questions.keys() <= self.decisions.keys()

    def outcome_question(self) -> str:
        """The id of the question whether it shall run again, after it began in :attr:`begun`."""
        return f"{self.id}~{self.begun}"

    def decided(self, question_id: str) -> Decision | None:
        """What was decided about a question."""
        row = self.decisions.get(question_id)
        return decision_of(row) if row is not None else None


class Ledger:
    """All calls of a turn, by id, and the counts that limits are about."""

    def __init__(self, run_id: str, begun: Mapping[str, Any], after: int) -> None:
        self.calls: dict[str, CallState] = {}
        self.limit_questions: dict[str, Message] = {}
        self.limit_decisions: dict[str, Message] = {}
        self.usage = Usage()
        self.steps = 0
        self.answered = False
        """Whether the last step was an answer without calls."""
        self.upto = after
        """The sequence up to which the last step's context went."""
        self.last_user = after
        """The sequence of the user's last message."""
        self._read = after
        """All rows up to here are entered, or no longer matter."""
        self._entered: set[int] = set()
        """Rows beyond it that are entered too."""
        self._run_id = run_id
        self._begun = dict(begun)
        self._open: dict[str, CallState] = {}

    async def read(self, store: Pages, session: str, owner: Owner) -> None:
        """Enter what others wrote since the last step began: decisions, results, the user's words."""
        while True:
            page = await store.history(session, owner, after=self._read, limit=_PAGE)
            self.enter(page)
            if page:
                self._forget(page[-1].sequence)
            if len(page) < _PAGE:
                return

    def enter(self, rows: Iterable[Message]) -> None:
        """Enter rows that this process wrote, or read; each counts once."""
        for row in rows:
            if row.sequence > self._read and row.sequence not in self._entered:
                self._entered.add(row.sequence)
                self._one(row)

    def step_begins(self, upto: int) -> None:
        """All rows up to ``upto`` stand in the context of the step that begins."""
        self.upto = max(self.upto, upto)
        self._forget(self.upto)

    def _forget(self, upto: int) -> None:
        self._read = max(self._read, upto)
        self._entered = {one for one in self._entered if one > self._read}

    def open_calls(self) -> list[CallState]:
        """The calls that have no result yet, in order."""
        return list(self._open.values())

    @property
    def waits_for_limit(self) -> bool:
        """Whether the question to go on beyond a limit has no decision."""
        return not self.limit_questions.keys() <= self.limit_decisions.keys()

    @property
    def allowance(self) -> int:
        """How many times the limits may be used up: once, and once more each time that a person says so."""
        agreed = [one for one in self.limit_decisions.values() if decision_of(one) is Decision.APPROVE]
        return 1 + len(agreed)

    @property
    def refused_limit(self) -> bool:
        """Whether a person said that the turn may not go on."""
        return any(decision_of(one) is not Decision.APPROVE for one in self.limit_decisions.values())

    def next_limit_question(self) -> str:
        """The id of the next question to go on."""
        return f"limit~{self._run_id}~{len(self.limit_questions) + 1}"

    def settle(self, call_id: str) -> None:
        """A call has its result."""
        state = self._open.pop(call_id, None)
        if state is not None:
            state.settled = True

    @property
    def user_waits(self) -> bool:
        """Whether the user has said something that no step has seen."""
        return self.last_user > self.upto

    def count(self, usage: Usage | None) -> None:
        """Add what a row says of tokens."""
        if usage is not None:
            self.usage = added(self.usage, usage)

    def _one(self, row: Message) -> None:
        match row.type:
            case Type.TOOL_CALL:
                state = CallState(row, begun=int(self._begun.get(row.call_id, 0)))
                self.calls[row.call_id] = self._open[row.call_id] = state
                self.answered = False
            case Type.TOOL_RESULT:
                if row.status is not Status.FAILED:
                    self.settle(row.call_id)
                self.answered = False
            case Type.APPROVAL:
                self._approval(row)
            case Type.REASONING:
                pass
            case _ if row.role is Role.USER:
                self.last_user = max(self.last_user, row.sequence)
            case _ if row.role is Role.ASSISTANT and row.status in (Status.DONE, Status.CANCELLED):
                # a text says how many calls follow it: without them its step was never whole
                self.answered = not (row.query or {}).get("calls")
            case _:
                pass
        if row.role is Role.ASSISTANT:
            self.count(row.usage)
            self.steps = max(self.steps, _number(row, "step"))
            self.upto = max(self.upto, _number(row, "upto"))

    def _approval(self, row: Message) -> None:
        asked = row.query or {}
        is_decision = "decision" in asked
        row = replace(row, content=row.content[:10_000])
        if asked.get("kind") == Question.LIMIT:
            rows = self.limit_decisions if is_decision else self.limit_questions
            if str(asked.get("id", "")).startswith(f"limit~{self._run_id}~"):
                rows[row.call_id] = row
        elif (state := self.calls.get(str(asked.get("call", "")))) is not None:
            rows = state.decisions if is_decision else state.questions
            rows[row.call_id] = row


def added(one: Usage, more: Usage) -> Usage:
    """Two answers' tokens together; the cost is unknown where that of one is."""
    both = None if one.cost is None and more.cost is None else (one.cost or 0.0) + (more.cost or 0.0)
    return Usage(
        one.input + more.input,
        one.output + more.output,
        one.cached + more.cached,
        one.cache_written + more.cache_written,
        one.reasoning + more.reasoning,
        both,
        more.model or one.model,
    )


def _number(row: Message, name: str) -> int:
    found = (row.query or {}).get(name)
    return found if isinstance(found, int) else 0

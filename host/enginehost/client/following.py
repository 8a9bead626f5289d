"""Follows the events of a session over cuts: nothing is missed, nothing comes twice. No I/O.

A client opens :meth:`Following.ask`, gives each event to :meth:`Following.take`, and tells
:meth:`Following.ended` how the stream ended, until :attr:`Following.done`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.client import session_asks as asks
from enginehost.client.answers import SessionEvent, object_in
from enginehost.client.asks import Ask
from enginehost.client.events import Event
from enginehost.client.faults import ConnectionLost, HostUnreachable, error_of
from enginehost.client.talk import backoff
from enginehost.errors import (
    CallCancelled,
    EngineHostError,
    EngineUnavailable,
    WaitsForPerson,
    error_from_json,
)

ENDED = frozenset({"done", "failed", "cancelled"})
WAITS = "paused"
MOST_FAILURES = 12
"""Tries in a row to find a host again: about 20 s."""


class Following:
    """One subscription. ``run``: until this turn has ended, or waits for a person.

    ``until_end``: until the host says that the turn that runs has ended. Without either, for ever.
    """

    def __init__(self, session: str, after: str, *, run: str = "", until_end: bool = False) -> None:
        self.session, self.after = session, after
        self.done = False
        self.state = ""
        """That of the latest turn that was seen."""
        self._run, self._until_end = run, until_end
        self._failures = 0
        self._heard = False
        """Whether this connection has brought an event."""

    def ask(self) -> Ask[Any]:
        """The request that goes on where the last one ended."""
        self._heard = False
        return asks.events(self.session, self.after, until_end=self._until_end)

    def take(self, event: Event) -> SessionEvent | None:
        """What an event tells the program. Raises what the stream ends with, but for what passes."""
        data = object_in(event)
        if event.name == "error":
            raise error_of(data)
        if event.name not in ("message", "run"):
            return None
        self._heard, self._failures = True, 0
        self.after = event.id or self.after
        if event.name == "run":
            self.state = str(data.get("state", ""))
            self.done = data.get("id") == self._run and (self.state in ENDED or self.state == WAITS)
        return SessionEvent(event.id, event.name, data)

    def ended(self, error: EngineHostError | None) -> float:
        """The stream ended; with ``error``, it broke. Gives the seconds until it is opened again.

        Raises ``error`` where that will not help.
        """
        if error is None and self._until_end and (self.state in ENDED or not self._heard):
            self.done = True  # a host that stops ends its streams too: only silence after the last is the end
            return 0.0
        passing = ConnectionLost | HostUnreachable | EngineUnavailable
        if error is not None and (not isinstance(error, passing) or self._failures >= MOST_FAILURES):
            raise error
        self._failures += 1
        return backoff(self._failures)


class Said:
    """Gathers what an agent says in a turn; the answer is its last text."""

    def __init__(self) -> None:
        self._last, self._text = "", list[str]()
        self.error: Mapping[str, Any] | None = None

    def take(self, event: SessionEvent) -> None:
        """Look at an event."""
        if event.kind == "run":
            self.error = event.data.get("error")
        elif event.data.get("role") == "assistant" and event.data.get("type") == "text":
            if event.data.get("id") != self._last:
                self._last, self._text = str(event.data.get("id")), []
            self._text.append(event.text)

    def answer(self, session: str, state: str, approvals: list[dict[str, Any]]) -> str:
        """The answer. Raises what kept the turn from ending well."""
        if state == WAITS:
            detail = {"session": session, "questions": approvals, "reason": "waits-for-a-person"}
            raise WaitsForPerson("the turn waits for a person to decide something", detail=detail)
        if state == "cancelled":
            raise CallCancelled("the turn was cancelled")
        if state == "failed":
            raise error_from_json(self.error or {"code": "execution_failed", "message": "the turn failed"})
        return "".join(self._text)

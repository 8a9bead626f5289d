"""A task as its events make it: rows and states of one turn in, the task and what changes of it out.

Every host folds the same stored events, so each says the same of a task, whoever runs it. The answer is one
artifact, ``answer``, whose texts come piece by piece; files are artifacts of their own. A text that turns out
to stand before calls of functions is no answer: the next step's begins the artifact anew, and it goes to the
history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from enginehost.agents.rows import NOTICE
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.serve.a2a.saying import EXTRA, PART, SAID, part_of
from enginehost.serve.a2a.wire import (
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    ROLE_AGENT,
    ROLE_USER,
    state_of,
    timestamp,
)
from enginehost.store.port import Event, Run

ANSWER = "answer"
"""The id of the artifact with the texts and the data of the answer."""

_ANSWERS = (Type.TEXT, Type.DATA, Type.IMAGE, Type.FILE)
_FILES = (Type.IMAGE, Type.FILE)
Update = dict[str, Any]


class Fold:
    """One task while its events are read, in their order, from its first row on."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ids = {"taskId": run.id, "contextId": run.session}
        self._state, self._at = state_of(run), run.created_at
        self._status: dict[str, Any] | None = None
        self._history: list[dict[str, Any]] = []
        self._answer: list[dict[str, Any]] = []
        self._files: list[dict[str, Any]] = []
        self._said: list[dict[str, Any]] = []
        """Parts of the user's message that is not whole yet."""
        self._step = -1
        self._fresh = True
        """Whether the next part of the answer begins the artifact anew."""
        self._pieces: dict[str, list[str]] = {}
        """What came of rows that are not whole; of an answer's text, nothing for each piece that was told."""
        self._questions: dict[str, Message] = {}
        self._notice = ""

    # Events

    def apply(self, event: Event) -> list[Update]:
        """Take an event in; what clients are told of it (``StreamResponse``, section 3.2.3)."""
        if event.run is not None:
            return list(self._moved(event.run)) if event.run.id == self.run.id else []
        return [] if event.message is None else self._row(event.message)

    def take(self, row: Message) -> None:
        """Take a row in that is whole."""
        self._row(row)

    def moved(self, run: Run) -> None:
        """Take in where the turn stands."""
        list(self._moved(run))

    def _row(self, row: Message) -> list[Update]:
        if row.type is Type.APPROVAL:
            self._question(row)
        elif row.role is Role.USER:
            self._user(row)
        elif row.role is Role.SYSTEM and (row.query or {}).get("kind") == NOTICE:
            self._notice = row.content
        elif row.role is Role.ASSISTANT and row.type in _ANSWERS:
            return list(self._answered(row))
        return []

    def _user(self, row: Message) -> None:
        if not row.whole:
            self._pieces.setdefault(row.id, []).append(row.content)
            return
        content = "".join([*self._pieces.pop(row.id, ()), row.content])
        self._said.append(part_of(row, content))
        query = row.query or {}
        if PART in query:
            return
        extra = query.get(EXTRA)
        self._history.append(
            self._message(str(query.get(SAID, row.id)), ROLE_USER, self._said)
            | (extra if isinstance(extra, dict) else {})
        )
        self._said = []

    def _answered(self, row: Message) -> Iterator[Update]:
        step = int((row.query or {}).get("step", 0))
        if step != self._step:
            self._interim()
            self._step = step
        if row.status is Status.FAILED:  # a part of an answer that broke off: the step is made again
            self._pieces.pop(row.id, None)
            self._answer, self._fresh = [], True
            return
        if row.type is not Type.TEXT or row.id in self._pieces or not row.whole:
            yield from self._in_pieces(row)
            return
        if row.content:
            yield self._grown(part_of(row), last=_is_last(row))

    def _in_pieces(self, row: Message) -> Iterator[Update]:
        if row.type is not Type.TEXT:
            if not row.whole:
                self._pieces.setdefault(row.id, []).append(row.content)
                return
            content = "".join([*self._pieces.pop(row.id, ()), row.content])
            if row.type in _FILES:
                yield self._file(row, content)
            else:
                yield self._grown(part_of(row, content), last=_is_last(row))
            return
        said = self._pieces.setdefault(row.id, [])
        last = row.whole and _is_last(row)
        if row.content or (last and said):
            yield self._grown({"text": row.content}, last=last, more=bool(said))
            said.append("")
        if row.whole:
            del self._pieces[row.id]

    def _grown(self, part: dict[str, Any], *, last: bool, more: bool = False) -> Update:
        """A further part of the answer; ``more`` of the text before it."""
        append, self._fresh = not self._fresh, False
        if not append:
            self._answer = []
        if more and self._answer and "text" in self._answer[-1]:
            self._answer[-1] = {"text": self._answer[-1]["text"] + part["text"]}
        else:
            self._answer.append(dict(part))
        told: Update = {"artifact": {"artifactId": ANSWER, "parts": [part]}}
        return {"artifactUpdate": self.ids | told | _flags(append=append, lastChunk=last)}

    def _file(self, row: Message, content: str) -> Update:
        name = (row.query or {}).get("name")
        artifact: dict[str, Any] = {"artifactId": row.id, "parts": [part_of(row, content)]}
        if name:
            artifact["name"] = str(name)
        self._files.append(artifact)
        return {"artifactUpdate": self.ids | {"artifact": artifact, "lastChunk": True}}

    def _interim(self) -> None:
        """What stood before calls was no answer."""
        if self._answer:
            name = f"{self.run.id}.{self._step}"
            self._history.append(self._message(name, ROLE_AGENT, self._answer))
        self._answer, self._fresh = [], True

    # Questions

    def _question(self, row: Message) -> None:
        query = row.query or {}
        if query.get("decision"):
            self._questions.pop(row.call_id, None)
            said = {"data": {"decision": query["decision"], "question": row.call_id}}
            parts = [said, *([{"text": row.content}] if row.content else [])]
            self._history.append(self._message(row.id, ROLE_USER, parts))
        else:
            self._questions[row.call_id] = row
            self._history.append(self._asks(row))

    def _asks(self, row: Message) -> dict[str, Any]:
        return self._message(row.id, ROLE_AGENT, question_parts(row, self.run.session))

    def _waiting(self) -> dict[str, Any] | None:
        rows = list(self._questions.values())
        if not rows:
            return None
        parts = [part for row in rows for part in question_parts(row, self.run.session)]
        return self._message(rows[-1].id, ROLE_AGENT, parts)

    # States

    def _moved(self, run: Run) -> Iterator[Update]:
        before = self._state
        self.run, self._state, self._at = run, state_of(run), run.modified_at
        if run.cancel and before == self._state:
            return
        self._status = self._explained(run)
        if before == self._state and self._state != INPUT_REQUIRED:
            return
        yield {"statusUpdate": self.ids | {"status": self.status}}

    def _explained(self, run: Run) -> dict[str, Any] | None:
        """The message that a state has beside it."""
        if self._state == INPUT_REQUIRED:
            return self._waiting()
        if self._state in (FAILED, REJECTED):
            text = self._notice or str((run.error or {}).get("message") or "the task failed")
            return self._message(f"{run.id}.end", ROLE_AGENT, [{"text": text}])
        return None

    # What is told

    @property
    def state(self) -> str:
        """The state of the task."""
        return self._state

    @property
    def status(self) -> dict[str, Any]:
        """``TaskStatus`` (section 4.1.2)."""
        found = {"state": self._state, "timestamp": timestamp(self._at)}
        return found | ({"message": self._status} if self._status is not None else {})

    def task(self, history: int | None = None, *, artifacts: bool = True) -> dict[str, Any]:
        """The task as it stands, with so many of its last messages (``None``: all)."""
        found: dict[str, Any] = {"id": self.run.id, "contextId": self.run.session, "status": self.status}
        made = [{"artifactId": ANSWER, "parts": list(self._answer)}] if self._answer else []
        if artifacts and (made or self._files):
            found["artifacts"] = [*made, *self._files]
        if history != 0 and self._history:
            found["history"] = self._history[-history:] if history else list(self._history)
        return found

    def _message(self, name: str, role: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {"messageId": name, "role": role, "parts": list(parts), **self.ids}


def question_parts(row: Message, session: str) -> list[dict[str, Any]]:
    """A question to a person: its text, and as data what it is about and how it is answered."""
    query = row.query or {}
    about = {name: query[name] for name in ("kind", "tool", "args") if name in query}
    decisions = ["approve", "reject", *(("edit", "answer") if query.get("call") else ())]
    asked = {"question": row.call_id, "session": session, **about, "decisions": decisions}
    return [{"text": row.content}, {"data": asked}]


def _is_last(row: Message) -> bool:
    """Whether no call of a function follows a row that is whole."""
    return not (row.query or {}).get("calls")


def _flags(**flags: bool) -> dict[str, bool]:
    return {name: True for name, given in flags.items() if given}

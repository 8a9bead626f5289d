"""A task is the same, however its events were cut into pieces and wherever its reader came in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from enginehost.llm.message import Message, Role, Status, Type
from enginehost.serve.a2a.folding import ANSWER, Fold
from enginehost.store.port import Event, Position, Run, RunState

RUN = Run("run", "session", "agent", RunState.QUEUED, started_by=1, created_at=1.0, modified_at=1.0)
STEPS = st.lists(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=3), min_size=1, max_size=4)


def rows(steps: list[list[str]]) -> list[Message]:
    """A user's message, then texts of steps; but for the last, each is followed by a call."""
    found = [Message(Role.USER, content="question", query={"message_id": "m"}, id="u", sequence=1)]
    for step, texts in enumerate(steps, 1):
        for at, text in enumerate(texts):
            last = at == len(texts) - 1
            calls = {"calls": 1} if last and step < len(steps) else {}
            query: dict[str, Any] = {"step": step, **calls}
            found.append(Message(Role.ASSISTANT, content=text, query=query, id=f"{step}.{at}"))
        if step < len(steps):
            call = {"tool": "add", "id": str(step), "args": {}}
            found.append(Message(Role.ASSISTANT, Type.TOOL_CALL, query=call, id=f"call{step}"))
            found.append(Message(Role.TOOL, Type.TOOL_RESULT, "1", query=call, id=f"result{step}"))
    return found


def cut(row: Message, data: st.DataObject) -> list[Message]:
    """A text as it may come: whole, or in pieces, the last with what is left."""
    if row.role is not Role.ASSISTANT or row.type is not Type.TEXT or data.draw(st.booleans()):
        return [row]
    ends = sorted(data.draw(st.sets(st.integers(0, len(row.content)), max_size=4)))
    pieces, start = [], 0
    for end in ends:
        pieces.append(
            replace(row, content=row.content[start:end], status=Status.OPEN, query={"step": step_of(row)})
        )
        start = end
    return [*pieces, replace(row, content=row.content[start:])]


def step_of(row: Message) -> int:
    return int((row.query or {})["step"])


def told(task: dict[str, Any], updates: list[dict[str, Any]]) -> str:
    """The answer as a client puts it together."""
    texts = [part["text"] for one in task.get("artifacts", []) for part in one["parts"]]
    for update in updates:
        if "artifactUpdate" in update:
            one = update["artifactUpdate"]
            assert one["artifact"]["artifactId"] == ANSWER
            texts = (texts if one.get("append") else []) + [part["text"] for part in one["artifact"]["parts"]]
    return "".join(texts)


@given(steps=STEPS, data=st.data())
def test_a_client_puts_together_what_the_store_has(steps: list[list[str]], data: st.DataObject) -> None:
    stored = Fold(RUN)
    for row in rows(steps):
        stored.take(row)
    done = replace(RUN, state=RunState.DONE, epoch=1, modified_at=2.0)
    stored.moved(done)
    events = [Event(Position(1), message=piece) for row in rows(steps) for piece in cut(row, data)]
    events.append(Event(Position(2), run=done))
    came_in = data.draw(st.integers(0, len(events)))
    followed = Fold(RUN)
    for event in events[:came_in]:
        followed.apply(event)
    snapshot = followed.task()
    updates = [update for event in events[came_in:] for update in followed.apply(event)]
    assert told(snapshot, updates) == "".join(steps[-1])
    assert followed.task() == stored.task()
    history = [part["text"] for one in stored.task()["history"] for part in one["parts"]]
    assert history == ["question", *(text for step in steps[:-1] for text in step)]
    assert stored.task()["history"][0]["messageId"] == "m"


@given(steps=STEPS, most=st.integers(0, 6))
def test_a_history_has_the_last_messages(steps: list[list[str]], most: int) -> None:
    fold = Fold(RUN)
    for row in rows(steps):
        fold.take(row)
    whole = fold.task()["history"]
    assert fold.task(most).get("history", []) == (whole[-most:] if most else [])


def test_a_step_that_broke_off_is_no_part_of_the_answer() -> None:
    fold = Fold(RUN)
    half = Message(Role.ASSISTANT, content="half an ", query={"step": 1}, id="a", status=Status.OPEN)
    fold.apply(Event(Position(1), message=half))
    fold.apply(Event(Position(2), message=replace(half, content="", status=Status.FAILED)))
    (update,) = fold.apply(
        Event(Position(3), message=replace(half, id="b", content="all", status=Status.DONE))
    )
    assert "append" not in update["artifactUpdate"]
    assert fold.task()["artifacts"] == [{"artifactId": ANSWER, "parts": [{"text": "all"}]}]

"""What clients give back where plain JSON would not say enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.client.asks import Answer, json_of
from enginehost.client.events import Event
from enginehost.client.faults import NotAHost, error_of
from enginehost.values import MalformedJson, decode, read


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event of a session: ``kind`` is ``message`` or ``run``, ``id`` the position to go on from."""

    id: str
    kind: str
    data: dict[str, Any]

    @property
    def text(self) -> str:
        """What the agent says with it; empty where it says nothing."""
        said = self.kind == "message" and self.data.get("role") == "assistant"
        return str(self.data.get("content", "")) if said and self.data.get("type") == "text" else ""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent answered: its ``text``, who it was, why that one (``routed``), in which conversation."""

    text: str
    agent: Mapping[str, Any]
    conversation_id: str
    routed: Mapping[str, Any] = field(default_factory=dict[str, Any])


def agent_answer(answer: Answer) -> AgentAnswer:
    """The answer of an agent."""
    found = json_of(answer)
    if not isinstance(found, dict) or "answer" not in found:
        raise NotAHost("the answer is not what a host says", detail={"status": answer.status})
    body = cast("dict[str, Any]", found)
    return AgentAnswer(
        str(body["answer"]),
        body.get("agent") or {},
        str(body.get("conversation_id", "")),
        body.get("routed") or {},
    )


def item_in(event: Event) -> tuple[bool, Any]:
    """Whether an event of a call's stream has an item, and the item.

    Raises the error that the stream ends with.
    """
    if event.name == "error":
        raise error_of(object_in(event))
    if event.name not in ("item", "result"):
        return False, None
    try:
        return True, decode(event.data)
    except MalformedJson:
        raise NotAHost("an event of the stream is no JSON") from None


def object_in(event: Event) -> dict[str, Any]:
    """The object that an event has."""
    try:
        found = read(event.data)
    except MalformedJson:
        raise NotAHost("an event of the stream is no JSON") from None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

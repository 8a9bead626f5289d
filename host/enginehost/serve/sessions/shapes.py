"""Sessions, turns and messages as JSON: what HTTP answers with, and what the chat shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.llm.message import Message, Status
from enginehost.store.port import Event, Run, SessionInfo
from enginehost.store.rows import usage_json


def message_json(message: Message) -> dict[str, Any]:
    """A message, or a piece of one (``status`` is ``open`` then).

    What only a provider needs back is left out; an export has it. ``finish`` says why an answer ended that
    did not end by itself; ``cut`` is true where the content goes on beyond what a page of messages has.
    """
    found: dict[str, Any] = {
        "id": message.id,
        "sequence": message.sequence,
        "role": str(message.role),
        "type": str(message.type),
        "status": str(message.status),
        "content": message.content,
    }
    if message.query is not None:
        query = dict(message.query)
        if query.pop("cut", False):
            found["cut"] = True
        if query or "cut" not in found:
            found["query"] = query
    if message.provider is not None and "finish" in message.provider:
        found["finish"] = str(message.provider["finish"])
    if message.usage is not None:
        found["usage"] = usage_json(message.usage)
    if message.status is not Status.OPEN:
        found |= {"created_at": message.created_at, "modified_at": message.modified_at}
    return found


def run_json(run: Run) -> dict[str, Any]:
    """A turn. Who runs it, and on whose behalf, is the host's own business."""
    found: dict[str, Any] = {
        "id": run.id,
        "session": run.session,
        "agent": run.agent,
        "state": str(run.state),
        "started_by": run.started_by,
        "created_at": run.created_at,
        "modified_at": run.modified_at,
    }
    if run.cancel and not run.state.ended:
        found["cancelling"] = True
    if run.usage is not None:
        found["usage"] = usage_json(run.usage)
    if run.error is not None:
        found["error"] = dict(run.error)
    return found


def event_json(event: Event) -> tuple[str, dict[str, Any]]:
    """The name of an event, ``message`` or ``run``, and its data."""
    if event.message is not None:
        return "message", message_json(event.message)
    return ("run", run_json(event.run)) if event.run is not None else ("message", {})


def session_json(info: SessionInfo, agent: str) -> dict[str, Any]:
    """A session in a list."""
    return {
        "id": info.id,
        "agent": agent,
        "messages": info.messages,
        "created_at": info.created_at,
        "modified_at": info.modified_at,
    }


def question_json(asked: Message, session: str) -> dict[str, Any]:
    """A question to a person: ``id`` names it where it is decided, in ``session``.

    ``call`` is the call that it is about, where there is one, and does for its id too.

    ``kind`` is ``approval``, ``outcome`` or ``limit``; the first two have the ``tool`` and its ``args``.
    """
    query: Mapping[str, Any] = asked.query or {}
    found = {
        "id": asked.call_id,
        "session": session,
        "call": str(query.get("call") or asked.call_id),
        "kind": str(query.get("kind", "")),
        "text": asked.content,
        "sequence": asked.sequence,
    }
    return found | {name: query[name] for name in ("tool", "args") if name in query}

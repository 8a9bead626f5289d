"""Agents whose turn waits for a person: what they ask goes to the client, and its answers decide it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.agents.asking import WAITS
from enginehost.agents.rows import Decision
from enginehost.errors import WaitsForPerson
from enginehost.questions import form

_KEY = "enginehost_decision"
_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Whether it may go on."},
        "text": {"type": "string", "title": "Answer", "description": "An answer, or why not."},
    },
    "required": ["approve"],
}


def as_asked(error: WaitsForPerson) -> WaitsForPerson:
    """The error of an agent that waits, with its questions as forms; any other as it is."""
    questions: Any = error.detail.get("questions")
    conversation: Any = error.detail.get("conversation_id")
    if error.detail.get("reason") != WAITS or not questions or not conversation:
        return error
    asked = {
        f"{_KEY} {conversation} {one['id']}": form(str(one.get("text", "May it go on?")), _FORM).to_json()
        for one in questions
    }
    return WaitsForPerson(error.message, detail={"ask": asked})


def decisions_in(answers: Mapping[str, Any] | None) -> tuple[str, list[dict[str, Any]]]:
    """The conversation that answers are about, and what was decided in it; each is told once, however often.

    All but the last are only told: the last one gives what comes of them.
    """
    conversation, found = "", list[dict[str, Any]]()
    for name, answer in (answers or {}).items():
        key, _, place = name.partition(" ")
        if key == _KEY and isinstance(answer, Mapping):
            conversation, _, question = place.rpartition(" ")
            found.append({**_decision(answer), "question": question, "again": True, "only": True})
    if found:
        found[-1]["only"] = False
    return conversation, found


def _decision(answer: Mapping[str, Any]) -> dict[str, Any]:
    content: Any = answer.get("content")
    filled: Mapping[str, Any] = content if isinstance(content, Mapping) else {}
    text = str(filled.get("text") or "")
    if answer.get("action") == "accept" and filled.get("approve") is True:
        return {"decision": Decision.ANSWER, "text": text} if text else {"decision": Decision.APPROVE}
    return {"decision": Decision.REJECT, "text": text}

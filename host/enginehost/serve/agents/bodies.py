"""What the body of a question to an agent says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from enginehost.agents.rows import Decision
from enginehost.databus.agents_turns import check_conversation
from enginehost.errors import InvalidRequest
from enginehost.serve.sessions.bodies import Body, body_of

CANCEL = "cancel"
"""A decision about the whole turn."""

_DECISIONS = (*Decision, CANCEL)


@dataclass(frozen=True, slots=True)
class Said:
    """``message``, ``conversation`` (empty: a new one), and ``decision``, which takes the message's place."""

    message: str
    conversation: str = ""
    decision: dict[str, Any] | None = None


async def said_in(request: Request, most_bytes: int, *, named: bool) -> Said:
    """The body of a question; ``named``: to an agent that the path names, which may be told a decision."""
    known = ("message", "conversation_id", *(("decision",) if named else ()))
    body = await body_of(request, most_bytes, *known)
    conversation = body.text("conversation_id")
    check_conversation(conversation)
    if not named or body.any("decision") is None:
        return Said(body.text("message", required=True), conversation)
    body.only("conversation_id", "decision", why="a decision")
    if not conversation:
        raise InvalidRequest("conversation_id is missing: a decision is about one that waits")
    return Said("decide", conversation, _decision(body.object("decision")))


def _decision(members: dict[str, Any]) -> dict[str, Any]:
    """``{"question", "decision", "text", "args"}`` as agents read it."""
    given = Body(members, ("question", "decision", "text", "args"))
    decided = given.text("decision", required=True)
    if decided not in _DECISIONS:
        raise InvalidRequest(f"decision must be one of {', '.join(_DECISIONS)}")
    question = given.text("question", required=decided != CANCEL)
    told: dict[str, Any] = {"question": question, "decision": decided, "text": given.text("text")}
    if decided == Decision.EDIT:
        told["args"] = given.object("args")
    elif given.any("args") is not None:
        raise InvalidRequest(f"args does not go with decision {decided}")
    return told

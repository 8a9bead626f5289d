"""What a message to a task that waits decides: an object in a data part, or words (section 3.4.3).

``{"decision": "approve" | "reject" | "edit" | "answer", "question", "reason", "args", "text"}``; without
``question`` it is about all that is asked. Of words, ``yes`` and its like approve and ``no`` rejects; any
others are why the call is not made, which the model reads.
"""

from __future__ import annotations

from typing import Any

from orjson import loads

from enginehost.agents.rows import Decision
from enginehost.agents.session import AgentSession
from enginehost.errors import InvalidRequest
from enginehost.llm.message import Type
from enginehost.serve.a2a.saying import Said
from enginehost.serve.sessions.access import options_in
from enginehost.serve.sessions.bodies import Body
from enginehost.serve.sessions.deciding import decide, open_questions

_YES = frozenset({"yes", "y", "ok", "okay", "approve", "approved", "go ahead", "continue", "allow", "sure"})
_NO = frozenset({"no", "n", "reject", "rejected", "deny", "denied", "stop", "don't", "do not"})
_KNOWN = ("decision", "reason", "args", "text")


async def decide_by(session: AgentSession, said: Said) -> None:
    """Decide what a turn of ``session`` waits for. Raises ``InvalidRequest``."""
    asked = await open_questions(session)
    if not asked:
        raise InvalidRequest("this task waits for nothing that a message decides")
    given = [_object(row.content) for row in said.rows if row.type is Type.DATA]
    told = given or [_worded(said.text)]
    for one in told:
        wanted = one.pop("question", None) or one.pop("call", None)
        found = [question for question in asked if wanted in (None, question["id"], question["call"])]
        if not found:
            raise InvalidRequest(f"this task asks no question {str(wanted)[:100]!r}")
        for question in found:
            where = await _session_of(session, question["session"])
            await decide(where, question["id"], Body(one, _KNOWN))


def _object(content: str) -> dict[str, Any]:
    found = loads(content)
    if not isinstance(found, dict) or not isinstance(found.get("decision"), str):
        raise InvalidRequest('a data part that decides is an object with "decision"')
    return {name: value for name, value in found.items() if value is not None}


def _worded(text: str) -> dict[str, Any]:
    words = text.strip(" \t\r\n.!").casefold()
    if not words:
        raise InvalidRequest("say yes or no, or why not; or send a data part with a decision")
    if words in _YES:
        return {"decision": str(Decision.APPROVE)}
    return {"decision": str(Decision.REJECT)} | ({} if words in _NO else {"reason": text})


async def _session_of(session: AgentSession, other: str) -> AgentSession:
    """The session that asks: this one, or that of an agent which its turn has asked."""
    if other == session.id:
        return session
    options = await options_in(session.service, other, session.owner)
    return AgentSession(session.service, other, session.caller, options)

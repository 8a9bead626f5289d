"""Questions to people, also those of the agents that a turn has asked, and the decisions on them."""

from __future__ import annotations

from typing import Any

from enginehost.agents.rows import Decision
from enginehost.agents.session import AgentSession
from enginehost.errors import InvalidRequest, UnknownSession
from enginehost.serve.sessions.access import options_in
from enginehost.serve.sessions.bodies import Body
from enginehost.serve.sessions.shapes import question_json, run_json

_DEPTH = 10
_WITH = {Decision.REJECT: "reason", Decision.EDIT: "args", Decision.ANSWER: "text"}
"""What each decision may have beside itself."""


async def open_questions(session: AgentSession, depth: int = _DEPTH) -> list[dict[str, Any]]:
    """What waits for a person: in this session, and in those of the agents that its turn waits for."""
    found = [question_json(asked, session.id) for asked in await session.questions()]
    run = await session.run()
    if run is None or run.state.ended or depth == 0:
        return found
    for child in (run.data.get("children") or {}).values():
        try:
            options = await options_in(session.service, str(child), session.owner)
            inner = AgentSession(session.service, str(child), session.caller, options)
        except (InvalidRequest, UnknownSession):  # deleted since, or an agent that is no more
            continue
        found += await open_questions(inner, depth - 1)
    return found


async def decide(session: AgentSession, call: str, body: Body) -> None:
    """Decide a question as the body says.

    Raises ``InvalidRequest``, with the reason ``settled`` where it has been decided already, and
    ``no-question`` where there is none.
    """
    given = body.text("decision", required=True)
    if given not in set(Decision):
        raise InvalidRequest(f"decision must be one of {', '.join(Decision)}")
    body.only("decision", _WITH.get(Decision(given), "decision"), why=f"decision {given}")
    match Decision(given):
        case Decision.APPROVE:
            await session.approve(call)
        case Decision.REJECT:
            await session.reject(call, body.text("reason"))
        case Decision.EDIT:
            await session.edit(call, body.object("args"))
        case Decision.ANSWER:
            await session.answer(call, body.text("text", required=True))


async def standing(session: AgentSession) -> dict[str, Any]:
    """A session as it stands: its agent, its latest turn, where its events end, what waits for a person."""
    run = await session.run()
    end = await session.service.store.end(session.id, session.owner)
    return {
        "id": session.id,
        "agent": session.options.agent,
        "run": None if run is None else run_json(run),
        "position": str(end),
        "approvals": await open_questions(session),
    }

"""What is asked about sessions and agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from enginehost.client.answers import AgentAnswer, agent_answer
from enginehost.client.asks import (
    EVENTS,
    GRACE_SECONDS,
    QUIET_SECONDS,
    Answer,
    Ask,
    Body,
    get,
    json_of,
    live,
    member,
    nothing,
    post,
)
from enginehost.values import encode

Message = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""What a user says: a text, or ``{"type", "content", "query"}`` (text, image, file, data), or several."""

Json = dict[str, Any]
LINES = "application/x-ndjson"
PAGE = 100


def path(session: str, *more: str) -> str:
    """The path of a session."""
    return "/".join(["/v1/sessions", *(quote(part, safe="") for part in (session, *more))])


def start(
    agent: str, id: str | None, system: str | None, tools: str | Sequence[str] | Mapping[str, Any] | None
) -> Ask[Json]:
    """A new session, or the one with this id."""
    chosen = tools if tools is None or isinstance(tools, str | Mapping) else list(tools)
    return post("/v1/sessions", json_of, {"agent": agent, "id": id, "system": system, "tools": chosen})


def sessions(cursor: str) -> Ask[Json]:
    """A page of the caller's sessions."""
    return get("/v1/sessions", json_of, {"limit": PAGE, "cursor": cursor})


def about(session: str) -> Ask[Json]:
    """A session as it stands."""
    return get(path(session), json_of)


def send(session: str, message: Message, agent: str | None) -> Ask[Json]:
    """Says something."""
    said = message if isinstance(message, str | Mapping) else list(message)
    return post(path(session, "messages"), member("run"), {"message": said, "agent": agent})


def history(session: str, after: int) -> Ask[Json]:
    """A page of messages."""
    return get(path(session, "messages"), json_of, {"after": after, "limit": PAGE})


def events(session: str, after: str, *, until_end: bool) -> Ask[Any]:
    """The events after a position."""
    query = {"until": "run-end"} if until_end else {}
    ask = get(path(session, "events"), live, query)
    return replace(ask, accept=EVENTS, after=after, live=True, wait=QUIET_SECONDS)


def cancel(session: str) -> Ask[Json | None]:
    """Ends the turn that runs."""
    return post(path(session, "cancel"), member("run"))


def fork(session: str, at: int | None) -> Ask[Json]:
    """A session that goes on from a message of this one."""
    return post(path(session, "fork"), json_of, {"at": at})


def approvals(session: str) -> Ask[list[Json]]:
    """What waits for a person."""
    return get(path(session, "approvals"), member("approvals"))


def decide(session: str, question: str, **decision: Any) -> Ask[Json | None]:
    """Decides a question."""
    return post(path(session, "approvals", question), member("run"), decision)


def delete(session: str) -> Ask[None]:
    """Deletes a session."""
    return Ask("DELETE", path(session), nothing)


def export(session: str) -> Ask[Any]:
    """A session as JSON lines, read as they come."""
    return replace(get(path(session, "export"), live), live=True, wait=QUIET_SECONDS)


def bring_in(lines: Body, id: str) -> Ask[str]:
    """A session from JSON lines."""
    query: dict[str, str | int] = {"id": id} if id else {}
    return Ask("POST", "/v1/sessions/import", _id, query, lines, media=LINES)


def _id(answer: Answer) -> str:
    return str(member("id")(answer))


def agents() -> Ask[list[Json]]:
    """The agents, of this host and of others."""
    return get("/v1/agents", member("agents"))


def question(
    message: str, agent: str, conversation: str, decision: Mapping[str, Any] | None, timeout: float | None
) -> Ask[AgentAnswer]:
    """Asks an agent, or tells it a decision."""
    body: Json = {"message": message} if decision is None else {"decision": dict(decision)}
    if conversation:
        body["conversation_id"] = conversation
    where = f"/v1/agents/{quote(agent, safe='')}/messages" if agent else "/v1/agents/messages"
    wait = timeout + GRACE_SECONDS if timeout else None
    return Ask("POST", where, agent_answer, body=encode(body), timeout=timeout, wait=wait)


def told(message: str, agent: str, conversation: str, timeout: float | None) -> Ask[Any]:
    """Asks an agent whose answer is read as it comes."""
    ask = question(message, agent, conversation, None, timeout)
    return cast("Ask[Any]", replace(ask, take=live, accept=EVENTS, live=True, wait=QUIET_SECONDS))  # pyright: ignore[reportArgumentType]

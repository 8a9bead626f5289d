"""The handlers of ``/v1/sessions…``."""

from __future__ import annotations

import asyncio
from base64 import b64decode, urlsafe_b64encode
from math import inf, nextafter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from enginehost.agents.contract import AgentSpec
from enginehost.agents.given import tool_selection
from enginehost.agents.identity import owner_of
from enginehost.agents.session import AgentSession
from enginehost.caller import Caller
from enginehost.errors import InvalidRequest, UnknownSession
from enginehost.llm.message import Message
from enginehost.serve.problem import HttpRefusal
from enginehost.serve.sessions.access import (
    agent_named,
    agents_of,
    caller_of,
    options_in,
    session_of,
)
from enginehost.serve.sessions.bodies import (
    Body,
    body_of,
    limit_in,
    messages_in,
    sequence_in,
)
from enginehost.serve.sessions.deciding import decide, open_questions, standing
from enginehost.serve.sessions.follow import Events
from enginehost.serve.sessions.shapes import message_json, run_json, session_json
from enginehost.serve.sessions.transfer import Transfer
from enginehost.store.port import Owner, Run, SessionInfo
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.agents.service import AgentService
    from enginehost.host import Host

_LAST = 1 << 62
_PAGE_CHARS = 8_000_000
"""A page of messages ends after so many characters of content."""
_AT_ONCE = 20
_TIES = 50
"""Sessions that may have been changed at the very same time, and stand on two pages of the list."""


def session_routes(host: Host) -> list[BaseRoute]:
    """The routes of sessions."""
    one, sessions, transfer = "/v1/sessions/{id}", Sessions(host), Transfer(host)
    return [
        _Route("/v1/sessions", sessions.list, methods=["GET"]),
        _Route("/v1/sessions", sessions.start, methods=["POST"]),
        _Route("/v1/sessions/import", transfer.take_in, methods=["POST"]),
        _Route(one, sessions.about, methods=["GET"]),
        _Route(one, sessions.delete, methods=["DELETE"]),
        _Route(f"{one}/messages", sessions.history, methods=["GET"]),
        _Route(f"{one}/messages", sessions.write, methods=["POST"]),
        _Route(f"{one}/events", Events(host), methods=["GET"]),
        _Route(f"{one}/cancel", sessions.cancel, methods=["POST"]),
        _Route(f"{one}/fork", sessions.fork, methods=["POST"]),
        _Route(f"{one}/approvals", sessions.questions, methods=["GET"]),
        _Route(f"{one}/approvals/{{call}}", sessions.decide, methods=["POST"]),
        _Route(f"{one}/export", transfer.give_out, methods=["GET"]),
    ]


class _Route(Route):
    """A route whose parts are what stands between the slashes of the path *as it was sent*.

    So that ``%2F`` is a character of an id, as of an id that was given before new ones could not have it.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether it is meant, with the parts of the path."""
        sent: bytes = scope.get("raw_path") or b""
        if b"%2f" not in sent.lower():
            return super().matches(scope)
        match, found = super().matches({**scope, "path": sent.partition(b"?")[0].decode("latin-1")})
        parts = found.get("path_params", {})
        return match, {**found, "path_params": {name: unquote(part) for name, part in parts.items()}}


class Sessions:
    """What may be done with the sessions of a caller."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._most_bytes = int(host.settings.http.max_body_bytes)

    async def list(self, request: Request) -> Response:
        """A page of the caller's sessions, latest first."""
        owner, limit = owner_of(caller_of(request)), limit_in(request)
        before = _cursor(request.query_params.get("cursor"))
        agents = await agents_of(self._host)
        time = nextafter(before[0], inf) if before else None
        found = await agents.store.sessions(owner, before=time, limit=limit + 1 + (_TIES if before else 0))
        rest = [info for info in found if before is None or (info.modified_at, info.id) < before]
        page = rest[:limit]
        names = await asyncio.gather(*(_agent_in(agents, info.id, owner) for info in page))
        answer: dict[str, Any] = {"sessions": list(map(session_json, page, names))}
        if len(rest) > limit:
            answer["next_cursor"] = _cursor_after(page[-1])
        return _json(answer)

    async def start(self, request: Request) -> Response:
        """A new session with an agent; or the caller's own, where there is one of the given id."""
        caller = caller_of(request)
        body = await self._body(request, "agent", "id", "system", "tools")
        agents = await agents_of(self._host)
        agent = agent_named(self._host, agents, body.text("agent", required=True), caller)
        given, tools = body.text_or_none("id"), tool_selection(body.any("tools"))
        if given and (there := await _known_agent(agents, given, owner_of(caller))) is not None:
            return await self._taken_up(agents, given, there, agent, caller)
        system = body.text("system")
        session = await agents.start(given, system=system, tools=tools, agent=agent, owner=caller)
        if not session.begun:  # by another request, at the same moment
            there = await _agent_in(agents, session.id, session.owner)
            return await self._taken_up(agents, session.id, there, agent, caller)
        response = _json(await standing(session), 201)
        response.headers["location"] = f"/v1/sessions/{quote(session.id, safe='')}"
        return response

    async def _taken_up(
        self, agents: AgentService, session: str, there: str, agent: str, caller: Caller
    ) -> Response:
        if there and there != agent:
            raise HttpRefusal(409, f"in this session {there} answers; send its messages to it")
        return _json(await standing(await session_of(self._host, agents, session, caller, agent=agent)))

    async def about(self, request: Request) -> Response:
        """A session as it stands: its agent, its latest turn, what waits for a person."""
        caller, agents = caller_of(request), await agents_of(self._host)
        return _json(await standing(await _readable(agents, request.path_params["id"], caller)))

    async def delete(self, request: Request) -> Response:
        """End what runs in it, and delete it."""
        caller, agents = caller_of(request), await agents_of(self._host)
        session = await _readable(agents, request.path_params["id"], caller)
        await session.cancel()
        await agents.store.delete(session.id, session.owner)
        return Response(status_code=204)

    async def history(self, request: Request) -> Response:
        """A page of messages, oldest first; with ``before``, the last ones before that."""
        owner, limit = owner_of(caller_of(request)), limit_in(request)
        after, before = sequence_in(request, "after"), sequence_in(request, "before")
        agents = await agents_of(self._host)
        rows, more = await _page(agents, request.path_params["id"], owner, (after or 0, before), limit)
        answer: dict[str, Any] = {"messages": [message_json(row) for row in rows]}
        if more and rows:
            answer |= {"next_after": rows[-1].sequence} if before is None else {}
            answer |= {"next_before": rows[0].sequence} if before is not None else {}
        return _json(answer)

    async def write(self, request: Request) -> Response:
        """Say something: a turn starts, or the one that runs takes it in."""
        caller = caller_of(request)
        body = await self._body(request, "message", "agent")
        said, agents = messages_in(body.any("message")), await agents_of(self._host)
        session = await session_of(
            self._host, agents, request.path_params["id"], caller, agent=body.text("agent")
        )
        return _json({"run": _run(await session.write(said))}, 202)

    async def cancel(self, request: Request) -> Response:
        """End the turn that runs or waits."""
        caller = caller_of(request)
        await self._body(request)
        agents = await agents_of(self._host)
        session = await _readable(agents, request.path_params["id"], caller)
        return _json({"run": _run(await session.cancel())}, 202)

    async def fork(self, request: Request) -> Response:
        """A session that goes on from a message of this one."""
        caller = caller_of(request)
        body = await self._body(request, "at")
        agents = await agents_of(self._host)
        session = await session_of(self._host, agents, request.path_params["id"], caller)
        at = body.number("at") or await _last(agents, session.id, session.owner)
        return _json(await standing(await session.fork(at)), 201)

    async def questions(self, request: Request) -> Response:
        """What waits for a person."""
        caller, agents = caller_of(request), await agents_of(self._host)
        session = await _readable(agents, request.path_params["id"], caller)
        return _json({"approvals": await open_questions(session)})

    async def decide(self, request: Request) -> Response:
        """Decide a question."""
        caller = caller_of(request)
        body = await self._body(request, "decision", "reason", "args", "text")
        agents = await agents_of(self._host)
        session = await session_of(self._host, agents, request.path_params["id"], caller)
        await decide(session, request.path_params["call"], body)
        return _json({"run": _run(await session.run())}, 202)

    async def _body(self, request: Request, *known: str) -> Body:
        return await body_of(request, self._most_bytes, *known)


async def _readable(agents: AgentService, session: str, caller: Any) -> AgentSession:
    """A session of the caller's, whether its agent still is there or not."""
    options = await options_in(agents, session, owner_of(caller))
    try:
        return AgentSession(agents, session, caller, options)
    except InvalidRequest:
        return AgentSession(agents, session, caller, options, spec=AgentSpec(options.agent))


async def _page(
    agents: AgentService, session: str, owner: Owner, between: tuple[int, int | None], limit: int
) -> tuple[list[Message], bool]:
    """Rows of one page, and whether there may be more."""
    after, before = between
    if before is not None:
        rows = await agents.store.history(
            session, owner, after=after, before=before, limit=min(limit, _AT_ONCE)
        )
        return rows, len(rows) == min(limit, _AT_ONCE)
    found: list[Message] = []
    size, asked = 0, 0
    while len(found) < limit and size < _PAGE_CHARS:
        asked = min(_AT_ONCE, limit - len(found))
        rows = await agents.store.history(session, owner, after=after, limit=asked)
        found += rows
        size += sum(len(row.content) for row in rows)
        if len(rows) < asked:
            return found, False
        after = rows[-1].sequence
    return found, True


async def _last(agents: AgentService, session: str, owner: Owner) -> int:
    """The number of the last row."""
    rows = await agents.store.history(session, owner, before=_LAST, limit=1)
    return rows[-1].sequence if rows else 0


async def _known_agent(agents: AgentService, session: str, owner: Owner) -> str | None:
    """Who answers in a session of the owner's; ``None`` where it is not there."""
    try:
        return (await options_in(agents, session, owner)).agent
    except UnknownSession:
        return None


async def _agent_in(agents: AgentService, session: str, owner: Owner) -> str:
    return await _known_agent(agents, session, owner) or ""


def _cursor_after(info: SessionInfo) -> str:
    return urlsafe_b64encode(f"{info.modified_at!r} {info.id}".encode()).decode()


def _cursor(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    try:
        time, _, session = b64decode(text, b"-_", validate=True).decode().partition(" ")
        return float(time), session
    except ValueError:
        raise InvalidRequest("cursor must be a next_cursor of an earlier answer") from None


def _run(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else run_json(run)


def _json(value: Any, status: int = 200) -> Response:
    return Response(write(value), status, media_type="application/json")

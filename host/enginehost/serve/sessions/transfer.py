"""Whole sessions as JSON lines, out and in, in flat memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from enginehost.agents.identity import owner_of
from enginehost.errors import CallCancelled, Forbidden, TooLarge, UnknownSession
from enginehost.serve.problem import HttpRefusal
from enginehost.serve.sessions.access import agents_of, caller_of, may_talk
from enginehost.store.ids import taken
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

MOST_BYTES = 1 << 30
"""Of a session that is brought in."""
_LINES = ("application/x-ndjson", "application/jsonl")


class Transfer:
    """Export and import."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def give_out(self, request: Request) -> Response:
        """A session as JSON lines, one message each."""
        owner, session = owner_of(caller_of(request)), request.path_params["id"]
        store = (await agents_of(self._host)).store
        await store.history(session, owner, limit=1)  # says whether there is such a session
        name = "".join(char for char in session if char.isascii() and (char.isalnum() or char in "-_."))
        headers = {"content-disposition": f'attachment; filename="{name or "session"}.jsonl"'}
        return StreamingResponse(store.export(session, owner), media_type=_LINES[0], headers=headers)

    async def take_in(self, request: Request) -> Response:
        """A session from JSON lines; its id is ``?id=``, or a new one."""
        caller, agents = caller_of(request), await agents_of(self._host)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media not in _LINES:
            raise HttpRefusal(415, f"the body must be JSON lines, sent as Content-Type: {_LINES[0]}")
        if not may_talk(self._host, agents, caller):
            raise Forbidden(f"{caller.subject} may talk to no agent here")
        wanted = request.query_params.get("id", "")
        try:
            session = await agents.bring_in(_chunks(request), caller, id=wanted)
        except UnknownSession:  # somebody else took the id meanwhile
            raise taken(wanted) from None
        headers = {"location": f"/v1/sessions/{quote(session, safe='')}"}
        return Response(write({"id": session}), 201, headers, media_type="application/json")


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise CallCancelled("the client went away")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > MOST_BYTES:
            raise TooLarge("a session that is brought in", limit=MOST_BYTES)
        if chunk:
            yield chunk
        more = message.get("more_body", False)

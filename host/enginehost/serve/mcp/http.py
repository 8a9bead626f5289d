"""MCP over HTTP: one request in a POST, its answer as JSON, or as events where something is told before it.

No session is kept in the revision without a handshake, and of the others only what the client carries itself
(:mod:`.handshake`): any host on the same functions answers any request.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from enginehost.auth import Authenticator
from enginehost.caller import Caller
from enginehost.errors import EngineHostError, ExecutionFailed, Unauthorized
from enginehost.serve.mcp.exchange import Exchange
from enginehost.serve.mcp.face import McpFace
from enginehost.serve.mcp.handshake import Handshakes
from enginehost.serve.mcp.messages import Response
from enginehost.serve.mcp.oauth import metadata_routes
from enginehost.serve.mcp.wire import MODERN, RequestId
from enginehost.serve.problem import HttpRefusal, respond
from enginehost.serve.request import Headers, check_media, read_body

if TYPE_CHECKING:
    from enginehost.host import Host

_ALLOW = {"Allow": "GET, POST, DELETE"}
_MOST_ASKED = 10_000
"""Questions to clients that wait for an answer."""


class McpHttp:
    """Answers what comes to ``/mcp``; ``?tags=a,b`` makes a tool set of the functions with one of them."""

    def __init__(self, host: Host, authenticator: Authenticator) -> None:
        self.host = host
        self._authenticator = authenticator
        self.face = McpFace(host)
        self.handshakes = Handshakes(self.face.seal)
        self.running: dict[tuple[str, RequestId], Exchange] = {}
        """Requests of clients with a handshake that take a while, so that they can be cancelled."""
        self._asked: dict[str, tuple[str, asyncio.Future[Any]]] = {}
        self._most = int(host.settings.http.max_body_bytes)

    async def __call__(
        self,
        scope: Scope,
        headers: Headers,
        caller: Caller,
        origin: bytes | None,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one request of ``caller``, who came through the face ``mcp``."""
        if not self.host.settings.mcp.enabled:
            raise HttpRefusal(404, "MCP is switched off here (setting mcp.enabled)")
        method = scope["method"]
        query: bytes = scope["query_string"]
        exchange = Exchange(self, scope, headers, caller, origin, receive, send)
        exchange.tags = _tags(query) if query else _ALL
        if method == "POST":
            if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
                check_media(headers)
            await exchange.post(await read_body(receive, headers, self._most))
        elif headers.get(b"mcp-protocol-version") == MODERN.encode():
            raise HttpRefusal(405, "this path takes POST", {"Allow": "POST"})
        elif method == "GET":
            if b"text/event-stream" not in headers.get(b"accept", b""):
                raise HttpRefusal(405, "a GET of this path is for events (Accept: text/event-stream)", _ALLOW)
            await exchange.follow()
        elif method == "DELETE" and b"mcp-session-id" in headers:
            await self._end(headers, exchange.caller, send)
        else:
            raise HttpRefusal(405, "this path takes GET, POST and DELETE", _ALLOW)

    async def _end(self, headers: Headers, caller: Caller, send: Send) -> None:
        if not await self.handshakes.end(headers[b"mcp-session-id"].decode("latin-1"), caller):
            raise HttpRefusal(404, "there is no such session")
        await respond(send, 204, [], b"")

    async def still_holds(self, proof: str) -> bool:
        """Whether an ``Authorization`` header that was accepted would be accepted now."""
        try:
            if proof and self._authenticator.authenticate_now(proof, "mcp") is None:
                await self._authenticator.authenticate(proof, "mcp")
        except Unauthorized:
            return False
        except EngineHostError:  # its issuer does not answer now: who came in stays
            pass
        return True

    # Questions to clients with a handshake

    def question(self, session: str) -> tuple[str, asyncio.Future[Any]]:
        """The id of a request to the client of a session, and where its answer will be."""
        if len(self._asked) >= _MOST_ASKED:
            raise ExecutionFailed("too many clients are being asked something; try again later")
        name = secrets.token_urlsafe(16)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[name] = session, future
        return name, future

    def forget(self, name: str) -> None:
        """Nobody waits for the answer to this question any more."""
        self._asked.pop(name, None)

    def answered(self, session: str, response: Response) -> None:
        """A client has answered; what nobody of this session asked is dropped."""
        asked_of, future = self._asked.get(str(response.id), ("", None))
        if future is None or future.done() or asked_of != session:
            return
        if response.error is not None:
            said = response.error.get("message") if isinstance(response.error, Mapping) else None
            future.set_exception(ExecutionFailed(f"the client did not answer: {str(said)[:500]}"))
        else:
            future.set_result(response.result)


def mcp_routes(host: Host) -> list[BaseRoute]:
    """The routes beside ``/mcp`` itself, which is dispatched before any router."""
    return metadata_routes(host)


_ALL: frozenset[str] = frozenset()


@lru_cache(256)
def _tags(query: bytes) -> frozenset[str]:
    words = [value for key, value in parse_qsl(query.decode("latin-1")) if key == "tags"]
    return frozenset(tag.strip() for word in words for tag in word.split(",") if tag.strip())

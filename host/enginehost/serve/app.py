"""The HTTP face as an ASGI application.

``POST /v1/functions/{name}`` is dispatched before any router: it is the hot path. All else is a
Starlette route (see ``routes.py``). Whatever fails becomes a problem document here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enginehost.address import format_address
from enginehost.admission import as_told
from enginehost.auth import Authenticator
from enginehost.caller import Caller, anonymous
from enginehost.errors import EngineHostError, Unauthorized
from enginehost.serve.a2a import PREFIX as A2A
from enginehost.serve.a2a import WELL_KNOWN, A2aHttp
from enginehost.serve.execute import Exchange
from enginehost.serve.gate import Gate, cors, header_fields, preflight
from enginehost.serve.mcp import McpHttp, invalid_token
from enginehost.serve.problem import HttpRefusal, refuse, respond
from enginehost.serve.request import kind_in, trace_of
from enginehost.serve.routes import Routes

if TYPE_CHECKING:
    from enginehost.host import Host

FUNCTIONS = "/v1/functions/"
MCP = "/mcp"
OPENAI = ("/v1/chat/completions", "/v1/models")
SEMOSS, EXECUTE = "/api/function-", "/execute"
_ROOT_CARD = f"/{WELL_KNOWN}"
PROBES = frozenset({"/healthz", "/readyz"})
"""Open to whoever reaches the port: probes show no token, and name the host by its address."""

_log = logging.getLogger("enginehost.http")


def make_app(host: Host, address: str | None = None) -> ASGIApp:
    """The ASGI application that serves ``host``, for a server bound to ``address`` (default: the setting).

    ``address`` is a host name or IP address without port; it decides which ``Host`` headers pass.
    """
    return HttpFace(host, address or host.settings.http.host)


class HttpFace:
    """Checks where a request comes from and who sends it, and hands it on."""

    def __init__(self, host: Host, address: str) -> None:
        http = host.settings.http
        self._host = host
        self._gate = Gate(address, http.allowed_hosts, http.allowed_origins)
        self._authenticator = Authenticator(host.settings)
        self._nobody = {
            face: anonymous(face, may_prove=host.settings.authenticates) for face in ("http", "mcp", "a2a")
        }
        self._max_body_bytes = int(http.max_body_bytes)
        self._mcp = McpHttp(host, self._authenticator)
        self._a2a = A2aHttp(host)
        self._router = Router(Routes(host).all(), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        origin: bytes | None = None
        caller: Caller | None = None
        path: str = scope["path"]
        headers: dict[bytes, bytes] = {}
        try:
            headers = header_fields(scope["headers"], scope["http_version"])
            if path not in PROBES:
                origin = self._gate.check(headers)
                if scope["method"] == "OPTIONS":
                    await respond(send, 204, preflight(origin), b"")
                    return
                proof = headers.get(b"authorization")
                face = _face(path)
                if proof is not None and path.startswith(OPENAI) and not self._host.settings.authenticates:
                    proof = None  # these clients send a key wherever they call
                face = "mcp" if path == MCP else "http"
                caller = self._nobody[face] if proof is None else await self._caller(proof, face)
            else:
                caller = self._nobody["http"]
            if path == MCP:
                await self._mcp(scope, headers, caller, origin, receive, send)
                return
            if path.startswith(A2A):
                await self._a2a(scope, headers, caller, cors(origin), receive, send)
                return
            if path == _ROOT_CARD and scope["method"] in ("GET", "HEAD"):
                await self._a2a.root_card(scope, headers, caller, cors(origin), send)
                return
            exchange = Exchange(self._host, caller, headers, origin, receive, send, self._max_body_bytes)
            if scope["method"] == "POST" and path.startswith(FUNCTIONS):
                query: bytes = scope["query_string"]
                await exchange.run(path[len(FUNCTIONS) :], kind=kind_in(query) if query else None)
            else:
                await self._route(scope, receive, send, exchange)
        except EngineHostError as error:
            if caller is None:
                if path == MCP and isinstance(error, Unauthorized):
                    error.challenge = invalid_token(self._host, scope, headers)
                await self._turn_away(scope, send, error, origin)
            else:
                await refuse(send, as_told(error, caller), cors(origin))
        except Exception:  # noqa: BLE001 - the server's boundary: a bug becomes a problem document and a log entry
            _log.exception("%s %s failed inside the host", scope["method"], scope["path"])
            await refuse(send, EngineHostError("the host failed; its log says why"), cors(origin))

    async def _turn_away(
        self, scope: Scope, send: Send, error: EngineHostError, origin: bytes | None
    ) -> None:
        """Answer one who did not get as far as being known. Calls, and proofs that fail, are recorded."""
        name = _called(scope)
        if name is None and not isinstance(error, Unauthorized):
            await refuse(send, error, cors(origin))
            return
        arrived = trace_of(dict(scope["headers"]))
        peer = format_address(*scope["client"]) if scope.get("client") else ""
        call = self._host.new_call(name or "", self._nobody["http"], arrived)
        self._host.refuse(call, error, peer=peer)
        call_id = call.call_id
        await refuse(send, error, [(b"x-call-id", call_id.encode()), *cors(origin)], call_id)

    async def _caller(self, proof: bytes, face: str) -> Caller:
        header = proof.decode("latin-1")
        caller = self._authenticator.authenticate_now(header, face)
        return await self._authenticator.authenticate(header, face) if caller is None else caller

    async def _route(self, scope: Scope, receive: Receive, send: Send, exchange: Exchange) -> None:
        scope["app"] = self  # has Starlette raise for 404 and 405 rather than answer in plain text
        scope["enginehost"] = exchange
        try:
            await self._router(scope, receive, _opened(send, exchange.origin))
        except HTTPException as error:
            raise HttpRefusal(
                error.status_code, _ROUTE_TEXTS.get(error.status_code, error.detail), error.headers
            ) from None


def _face(path: str) -> str:
    if path == MCP:
        return "mcp"
    return "a2a" if path.startswith(A2A) else "http"


def _called(scope: Scope) -> str | None:
    """The function, or SEMOSS's engine, that a request calls; ``None`` for one that is no call."""
    path: str = scope["path"]
    if scope["method"] != "POST":
        return None
    if path.startswith(FUNCTIONS):
        return path[len(FUNCTIONS) :]
    semoss = path.startswith(SEMOSS) and path.endswith(EXECUTE)
    return path[len(SEMOSS) : -len(EXECUTE)] if semoss else None


_ROUTE_TEXTS = {
    404: "there is nothing at this path; /openapi.json and /docs say what there is",
    405: "this path does not take this method",
}


def _opened(send: Send, origin: bytes | None) -> Send:
    """``send``, with the headers that let the page of an allowed foreign ``origin`` read the answer."""
    if origin is None:
        return send

    async def with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *cors(origin)]}
        await send(message)

    return with_cors

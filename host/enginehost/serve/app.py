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

from enginehost.auth import Authenticator
from enginehost.caller import Caller, anonymous
from enginehost.errors import EngineHostError
from enginehost.serve.execute import Exchange
from enginehost.serve.gate import Gate, cors, preflight
from enginehost.serve.problem import HttpRefusal, for_caller, refuse, respond
from enginehost.serve.routes import Routes

if TYPE_CHECKING:
    from enginehost.host import Host

FUNCTIONS = "/v1/functions/"
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
        self._anonymous = anonymous("http")
        self._authenticates = host.settings.authenticates
        self._max_body_bytes = int(http.max_body_bytes)
        self._router = Router(Routes(host).all(), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        origin: bytes | None = None
        caller: Caller | None = None
        try:
            path: str = scope["path"]
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if path not in PROBES:
                origin = self._gate.check(headers)
                if scope["method"] == "OPTIONS":
                    await respond(send, 204, preflight(origin), b"")
                    return
                proof = headers.get(b"authorization")
                caller = self._anonymous if proof is None else await self._caller(proof)
            else:
                caller = self._anonymous
            exchange = Exchange(self._host, caller, headers, origin, receive, send, self._max_body_bytes)
            if scope["method"] == "POST" and path.startswith(FUNCTIONS):
                await exchange.run(path[len(FUNCTIONS) :])
            else:
                await self._route(scope, receive, send, exchange)
        except EngineHostError as error:
            await refuse(send, for_caller(error, caller, self._authenticates), cors(origin))
        except Exception:  # noqa: BLE001 - the server's boundary: a bug becomes a problem document and a log entry
            _log.exception("%s %s failed inside the host", scope["method"], scope["path"])
            await refuse(send, EngineHostError("the host failed; its log says why"), cors(origin))

    async def _caller(self, proof: bytes) -> Caller:
        header = proof.decode("latin-1")
        caller = self._authenticator.authenticate_now(header, "http")
        return await self._authenticator.authenticate(header, "http") if caller is None else caller

    async def _route(self, scope: Scope, receive: Receive, send: Send, exchange: Exchange) -> None:
        scope["app"] = self  # has Starlette raise for 404 and 405 rather than answer in plain text
        scope["enginehost"] = exchange
        try:
            await self._router(scope, receive, _opened(send, exchange.origin))
        except HTTPException as error:
            raise HttpRefusal(
                error.status_code, _ROUTE_TEXTS.get(error.status_code, error.detail), error.headers
            ) from None


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

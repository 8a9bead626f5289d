"""The way to a server over HTTP: transports of the SDK's client on the connections that engines share.

What goes wrong with one request is answered as an error of that request (the SDK would give up the session
with all its calls), and told to ``trouble``, for somebody to look whether the server is still there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost_engines.mcp.stdio import TOO_LARGE
from enginehost_engines.rest.failures import TRANSPORT_ERRORS, transport_failure
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.transport import Client, PoolSettings
from enginehost_engines.rest.url import DEFAULT_PORTS, Origin

UNREACHABLE = -32096
"""The request did not reach the server."""
BROKEN_OFF = -32095
"""The connection broke after the request was sent."""
REFUSED = -32094
"""The server answered with a status; it stands in ``data``."""
SESSION_GONE = -32093
"""The server does not know the session (any more)."""

CONNECT_SECONDS = 10.0
WRITE_SECONDS = 30.0
LEAVE_SECONDS = 2.0
_SILENCE_SECONDS = 24 * 3600.0
"""How long a stream may be silent: every call has a deadline, and a stream of news has none."""

_SESSION = "mcp-session-id"


@asynccontextmanager
async def http_transport(
    url: str,
    headers: dict[str, str],
    *,
    sse: bool,
    limit: int,
    private_networks: bool,
    trouble: Callable[[], None],
) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of a server at ``url``: streamable HTTP, or with ``sse`` the older HTTP with SSE."""
    origin = _origin(httpx2.URL(url))
    client = await Client.open(PoolSettings.of(origin, private_networks))
    transport = _Transport(client, limit, trouble)

    def http_client(*_: object, **__: object) -> httpx2.AsyncClient:
        # trust_env would put proxies of its own before the transport
        return httpx2.AsyncClient(transport=transport, headers=headers, timeout=None, trust_env=False)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        if sse:
            way = sse_client(url, httpx_client_factory=http_client, sse_read_timeout=_SILENCE_SECONDS)
        else:
            shared = await stack.enter_async_context(http_client())
            way = streamable_http_client(url, http_client=shared, max_sse_event_size=limit)
        yield await stack.enter_async_context(way)


def _origin(url: httpx2.URL) -> Origin:
    return Origin(url.scheme, url.host, url.port or DEFAULT_PORTS[url.scheme])


class _Transport(httpx2.AsyncBaseTransport):
    """Sends the SDK's requests over the connections of the REST engines."""

    def __init__(self, client: Client, limit: int, trouble: Callable[[], None]) -> None:
        self._client = client
        self._limit = limit
        self._trouble = trouble

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer; of a POST that fails, an error of JSON-RPC in its place."""
        request.headers["accept-encoding"] = "identity"  # what is packed small may be of any size
        try:
            response = await self._send(request)
        except TRANSPORT_ERRORS as error:
            self._trouble()
            failure = transport_failure(error, request.url.host, _timeouts(request.method), _TIMEOUT_NAMES)
            if request.method != "POST":
                raise httpx2.ConnectError(failure.message, request=request) from error
            return _failed(request, _code(failure), failure.message)
        if request.method != "POST":
            return response
        return await self._checked(request, response)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        stack = AsyncExitStack()
        message = Message(
            request.method,
            _origin(request.url),
            request.url.raw_path,
            tuple(request.headers.raw),
            await request.aread(),
        )
        response = await stack.enter_async_context(
            self._client.exchange(message, _timeouts(request.method), "never")
        )
        is_json = response.headers.get("content-type", "").lower().startswith("application/json")
        body = _Body(response, stack, self._limit if is_json else None, self._trouble)
        return httpx2.Response(response.status_code, headers=response.headers, stream=body, request=request)

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """The answer, unless it is one of which the SDK would keep nothing but that it failed."""
        status = response.status_code
        packed = response.headers.get("content-encoding", "identity") != "identity"
        if packed:
            await response.aclose()
            return _failed(
                request, REFUSED, "the server packs its answers, though it was asked not to", status
            )
        if status == 404 and _SESSION in request.headers:
            await response.aclose()
            self._trouble()
            return _failed(request, SESSION_GONE, "the server does not know the session any more", status)
        is_json = response.headers.get("content-type", "").lower().startswith("application/json")
        if status >= 400:
            body = await response.aread() if is_json else b""
            await response.aclose()
            if b'"jsonrpc"' in body:
                headers = {"content-type": "application/json"}
                return httpx2.Response(status, headers=headers, content=body, request=request)
            return _failed(request, REFUSED, f"the server answered {status}", status)
        length = response.headers.get("content-length", "")
        if is_json and length.isdigit() and int(length) > self._limit:
            await response.aclose()
            return _failed(request, TOO_LARGE, length)
        return response


class _Body(httpx2.AsyncByteStream):
    """A body that ends where it breaks off, or grows beyond ``limit``: its reader finds it incomplete."""

    def __init__(
        self,
        response: httpx2.Response,
        stack: AsyncExitStack,
        limit: int | None,
        trouble: Callable[[], None],
    ) -> None:
        self._response, self._stack, self._limit, self._trouble = response, stack, limit, trouble

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._response.aiter_raw():
                size += len(chunk)
                if self._limit is not None and size > self._limit:
                    return
                yield chunk
        except TRANSPORT_ERRORS:
            self._trouble()

    async def aclose(self) -> None:
        await self._stack.aclose()


def _timeouts(method: str) -> dict[str, float]:
    if method == "DELETE":  # a session is taken leave of, perhaps from a server that is gone
        return dict.fromkeys(("connect", "pool", "read", "write"), LEAVE_SECONDS)
    connect = CONNECT_SECONDS
    return {"connect": connect, "pool": connect, "read": _SILENCE_SECONDS, "write": WRITE_SECONDS}


_TIMEOUT_NAMES = {"connect": "", "read": ""}


def _code(failure: EngineHostError) -> int:
    """Connecting failed, or what came after."""
    connecting = isinstance(failure, EngineUnavailable) or failure.code == "timeout"
    return UNREACHABLE if connecting else BROKEN_OFF


def _failed(request: httpx2.Request, code: int, message: str, status: int = 502) -> httpx2.Response:
    error: dict[str, Any] = {"code": code, "message": message, "data": {"status": status}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    status = status if status >= 400 else 502
    return httpx2.Response(
        status, headers={"content-type": "application/json"}, content=body, request=request
    )

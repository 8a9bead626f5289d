"""The connections of one model engine: many at once, in pools of a bounded size.

A pool of the library looks through all of its connections whenever a request begins or ends: with 2,000 of
them that took a seventh of the processor's time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpcore2
import httpx2

from enginehost.llm.network import Network

_MOST = 50
"""Requests of one pool at once."""
_AT_REST = 20
"""Connections of one pool that wait for the next request."""


class Connections(httpx2.AsyncBaseTransport):
    """Sends requests directly, over as many pools as there is need for; the first one stays."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._ssl = httpx2.create_ssl_context()
        self._pools = [self._made()]

    def _made(self) -> _Pool:
        return _Pool(
            httpcore2.AsyncConnectionPool(
                ssl_context=self._ssl,
                max_connections=None,
                max_keepalive_connections=_AT_REST,
                keepalive_expiry=5.0,
                network_backend=self._network,
            )
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, as httpx2's own transport does."""
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        content: Any = request.stream
        asked = httpcore2.Request(
            request.method, url, headers=request.headers.raw, content=content, extensions=request.extensions
        )
        pool = self._taken()
        try:
            answer = await pool.inner.handle_async_request(asked)
        except BaseException as error:
            await self._given_back(pool)
            if isinstance(error, Exception):
                raise _as_httpx(error) from error
            raise
        body = _Body(answer, self, pool)
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=body, extensions=answer.extensions
        )

    def _taken(self) -> _Pool:
        """A pool with room, the fullest first, so that those that are no longer needed run dry."""
        pool = next((one for one in self._pools if one.requests < _MOST), None)
        if pool is None:
            pool = self._made()
            self._pools.append(pool)
        pool.requests += 1
        return pool

    async def _given_back(self, pool: _Pool) -> None:
        pool.requests -= 1
        if not pool.requests and pool is not self._pools[0] and pool in self._pools:
            self._pools.remove(pool)
            with anyio.CancelScope(shield=True):
                await pool.inner.aclose()

    async def given_back(self, answer: httpcore2.Response, pool: _Pool) -> None:
        """An answer has been read, or nobody reads it any more."""
        try:
            await answer.aclose()
        finally:
            await self._given_back(pool)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            await pool.inner.aclose()


class _Pool:
    """One of the library's pools, and how many requests it has now."""

    def __init__(self, inner: httpcore2.AsyncConnectionPool) -> None:
        self.inner, self.requests = inner, 0


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response, connections: Connections, pool: _Pool) -> None:
        self._answer, self._connections, self._pool = answer, connections, pool
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.aiter_stream():
                yield chunk
        except Exception as error:
            raise _as_httpx(error) from error

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await self._connections.given_back(self._answer, self._pool)


def _as_httpx(error: Exception) -> Exception:
    """httpcore2's error as httpx2 names it."""
    kind = getattr(httpx2, type(error).__name__, None)
    if type(error).__module__.startswith("httpcore2") and kind is not None:
        return kind(str(error))
    return error

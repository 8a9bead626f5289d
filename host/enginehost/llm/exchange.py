"""One request to a model provider over HTTP, for engines that use no library of a vendor's.

::

    async with answered(client, who, request) as response:
        async for chunk in raw_chunks(response, who):
            …

Leaving the context closes the connection where the answer has not ended. Failures come as those of
:mod:`enginehost.llm.failures`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.request import getproxies

import anyio
import orjson

from enginehost.engine import HostAccess
from enginehost.llm.failures import from_status, from_transport
from enginehost.llm.sse import malformed

if TYPE_CHECKING:
    import httpx2

LENGTH_REQUIRED = 411
"""The status with which a server refuses a body whose length it does not know (RFC 9110, 15.5.12)."""

_MOST_OF_AN_ERROR = 64 * 1024
"""Bytes that are read of an error's body."""


def make_client(access: HostAccess, headers: Mapping[str, str] | None = None) -> httpx2.AsyncClient:
    """A client for one engine. Where the host allows no private networks, it reaches none.

    It follows no redirects: a key goes to the address in the file and nowhere else.
    """
    import httpx2

    from enginehost.llm.connections import Connections
    from enginehost.llm.network import Network
    from enginehost.llm.public_only import PublicNetwork

    sent = {"accept-encoding": "identity", "user-agent": "enginehost"} | dict(headers or {})
    if not access.private_networks:
        return httpx2.AsyncClient(headers=sent, transport=Connections(PublicNetwork()), trust_env=False)
    if getproxies():  # the library knows how to go through one
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        return httpx2.AsyncClient(headers=sent, limits=limits)
    return httpx2.AsyncClient(headers=sent, transport=Connections(Network()))


def timeouts(connect: float, read: float) -> httpx2.Timeout:
    """Limits of a request, in seconds: for making a connection, and for each byte after it."""
    import httpx2

    return httpx2.Timeout(connect=connect, read=read, write=read, pool=connect)


@asynccontextmanager
async def answered(
    client: httpx2.AsyncClient, who: str, request: httpx2.Request
) -> AsyncGenerator[httpx2.Response]:
    """Send, and give the answer with its body still to be read. An answer other than 2xx is raised."""
    import httpx2

    read = _read_timeout(request)
    try:
        response = await client.send(request, stream=True)
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        raise from_transport(who, error, read) from error
    try:
        if not response.is_success:
            body = await _beginning(response)
            headers = {name.lower(): text for name, text in response.headers.items()}
            raise from_status(who, response.status_code, headers, body)
        yield response
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()


async def raw_chunks(response: httpx2.Response, who: str) -> AsyncGenerator[bytes, None]:
    """The body as it comes."""
    import httpx2

    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx2.TransportError as error:
        raise from_transport(who, error, _read_timeout(response.request)) from error


async def json_object(chunks: AsyncIterable[bytes]) -> dict[str, Any]:
    """A body that is one JSON object. Raises :class:`~enginehost.errors.ExecutionFailed` for any other."""
    body = b"".join([chunk async for chunk in chunks])
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise malformed("it is no JSON object")
    return cast("dict[str, Any]", found)


async def _beginning(response: httpx2.Response) -> bytes:
    import httpx2

    body = b""
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) >= _MOST_OF_AN_ERROR:
                break
    except httpx2.TransportError:
        return body  # the status says enough
    return body[:_MOST_OF_AN_ERROR]


def _read_timeout(request: httpx2.Request) -> float:
    found: Any = request.extensions.get("timeout", {})
    return float(found.get("read") or 0.0)

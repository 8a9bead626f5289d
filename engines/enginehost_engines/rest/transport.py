"""Sends requests over connections that the engines of a process share.

httpcore2 is the connection pool of httpx2. It takes a request's bytes as they are: no header and no path is
written anew on the way, no cookie is kept from one call to the next, and no URL is logged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import httpcore2
import httpx2
from anyio import to_thread

from enginehost_engines.rest.guard import PublicOnly
from enginehost_engines.rest.request import Message, redirected
from enginehost_engines.rest.url import DEFAULT_PORTS, Origin

MOST_CONNECTIONS = 1000
MOST_IDLE = 100
IDLE_SECONDS = 15.0
MOST_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What engines must have in common to share connections. ``proxy`` is a URL, empty for none."""

    secure: bool
    private_networks: bool
    proxy: str = ""

    @classmethod
    def of(cls, origin: Origin, private_networks: bool) -> PoolSettings:
        """The settings for a host; the proxy is that of the environment (``HTTPS_PROXY``, ``NO_PROXY``, …).

        A proxy resolves names by itself, so no address can be checked behind one: where private networks are
        refused, connections are direct.
        """
        proxy = ""
        if private_networks and not proxy_bypass(origin.host):
            proxies = getproxies()
            proxy = proxies.get(origin.scheme) or proxies.get("all") or ""
        return cls(origin.scheme == "https", private_networks, proxy)


@dataclass(slots=True)
class _Shared:
    pool: httpcore2.AsyncConnectionPool
    users: int = 0


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[PoolSettings, _Shared]] = WeakKeyDictionary()


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """The system's certificates (``SSL_CERT_FILE`` counts), read once: it takes 20 ms and 1 MB."""
    return httpx2.create_ssl_context()


class Client:
    """One engine's way out; :meth:`close` gives it back."""

    def __init__(self, settings: PoolSettings, shared: _Shared) -> None:
        self._settings = settings
        self._shared = shared

    @classmethod
    async def open(cls, settings: PoolSettings) -> Client:
        """Take part in the pool of this event loop that has these settings."""
        context = await to_thread.run_sync(_tls) if settings.secure else None
        pools = _pools.setdefault(asyncio.get_running_loop(), {})
        shared = pools.get(settings)
        if shared is None:
            shared = pools[settings] = _Shared(_make_pool(settings, context))
        shared.users += 1
        return cls(settings, shared)

    async def close(self) -> None:
        """Leave the pool; the last one closes its connections."""
        self._shared.users -= 1
        if self._shared.users == 0:
            del _pools[asyncio.get_running_loop()][self._settings]
            await self._shared.pool.aclose()

    @asynccontextmanager
    async def exchange(
        self, message: Message, timeouts: dict[str, float], redirects: str = "same-origin"
    ) -> AsyncGenerator[httpx2.Response]:
        """Send, follow ``redirects``, and give the answer with its body still to be read.

        ``redirects`` is what ``FOLLOW_REDIRECTS`` may be; none leads away from the host.
        ``timeouts``: ``connect``, ``pool``, ``read`` and ``write``, in seconds. Raises as httpcore2 does.
        """
        hops = 0 if redirects == "never" else MOST_REDIRECTS
        for hop in range(hops + 1):
            response = await self._send(message, timeouts)
            try:
                following = _following(message, response, redirects) if hop < hops else None
                if following is None:
                    yield response
                    return
                message = following
            finally:
                await response.aclose()

    async def _send(self, message: Message, timeouts: dict[str, float]) -> httpx2.Response:
        origin = message.origin
        url = httpcore2.URL(
            scheme=origin.scheme.encode(),
            host=origin.host.encode(),
            port=origin.explicit_port,
            target=message.target,
        )
        request = httpcore2.Request(
            message.method.encode(),
            url,
            headers=list(message.headers),
            content=message.body,
            extensions={"timeout": timeouts},
        )
        answer = await self._shared.pool.handle_async_request(request)
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._answer.aiter_stream():
            yield chunk

    async def aclose(self) -> None:
        await self._answer.aclose()


def _make_pool(settings: PoolSettings, context: ssl.SSLContext | None) -> httpcore2.AsyncConnectionPool:
    proxy = _proxy(settings.proxy) if settings.proxy else None
    return httpcore2.AsyncConnectionPool(
        ssl_context=context,
        proxy=proxy,
        max_connections=MOST_CONNECTIONS,
        max_keepalive_connections=MOST_IDLE,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=None if settings.private_networks else PublicOnly(),
    )


def _proxy(url: str) -> httpcore2.Proxy:
    parsed = httpx2.URL(url if "://" in url else f"http://{url}")
    auth = (parsed.username, parsed.password) if parsed.userinfo else None
    return httpcore2.Proxy(str(parsed.copy_with(userinfo=b"")), auth=auth)


def _following(message: Message, response: httpx2.Response, redirects: str) -> Message | None:
    """The request that a redirect asks for, if it stays on the host; credentials may only go there."""
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or not location:
        return None
    here = f"{message.origin.scheme}://{message.origin.authority}{message.target.decode()}"
    try:
        there = urlsplit(urljoin(here, location))
        port = there.port or DEFAULT_PORTS.get(there.scheme, 0)
    except ValueError:
        return None
    origin = Origin(there.scheme, there.hostname or "", port)
    if origin != message.origin and not _only_safer(message.origin, origin):
        return None
    target = (there.path or "/") + (f"?{there.query}" if there.query else "")
    any_method = redirects == "any-method"
    return redirected(message, response.status_code, origin, target, any_method=any_method)


def _only_safer(old: Origin, new: Origin) -> bool:
    return (old.scheme, old.port, new.scheme, new.port, new.host) == ("http", 80, "https", 443, old.host)

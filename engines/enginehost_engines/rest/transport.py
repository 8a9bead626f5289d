"""Sends requests over connections that the engines of a process share.

httpcore2 is the connection pool of httpx2. It takes a request's bytes as they are: no header and no path is
written anew on the way, no cookie is kept from one call to the next, and no URL is logged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import httpcore2
import httpx2
from anyio import to_thread

from enginehost.breaker import Breaker
from enginehost_engines.rest.guard import PublicOnly
from enginehost_engines.rest.idle import IdleConnections
from enginehost_engines.rest.network import Network
from enginehost_engines.rest.proof import Proof
from enginehost_engines.rest.redirects import following_of, stays
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.surplus import has_surplus
from enginehost_engines.rest.tls import NO_FILES, TlsFiles, make_context
from enginehost_engines.rest.url import DEFAULT_PORTS, Origin

MOST_CONNECTIONS = 1000
MOST_PER_HOST = 100
MOST_IDLE = 100
IDLE_SECONDS = 15.0
MOST_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What engines must have in common to share connections. ``proxy`` is a URL, empty for none."""

    secure: bool
    private_networks: bool
    proxy: str = field(default="", repr=False)
    tls: TlsFiles = NO_FILES
    http2: bool = False
    connections: int = MOST_CONNECTIONS
    per_host: int = MOST_PER_HOST
    """Requests to one origin at once."""
    idle_seconds: float = IDLE_SECONDS

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
        secure = origin.scheme == "https" or origin.port == DEFAULT_PORTS["http"]  # may lead to https
        return cls(secure, private_networks, proxy)


@dataclass(slots=True)
class _Shared:
    pool: httpcore2.AsyncConnectionPool
    idle: IdleConnections
    users: int = 0
    places: dict[Origin, asyncio.Semaphore] = field(default_factory=dict)
    breakers: dict[tuple[Origin, int, float], Breaker] = field(default_factory=dict)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[PoolSettings, _Shared]] = WeakKeyDictionary()


@lru_cache(maxsize=2)
def _tls(http2: bool = False) -> ssl.SSLContext:
    """What the system trusts, read once: it takes 20 ms and 1 MB. A pool writes its protocols into it."""
    return make_context(NO_FILES)


def _context(settings: PoolSettings) -> ssl.SSLContext:
    return make_context(settings.tls) if settings.tls.paths else _tls(settings.http2)


class Client:
    """One engine's way out; :meth:`close` gives it back."""

    def __init__(self, settings: PoolSettings, shared: _Shared) -> None:
        self._settings = settings
        self._shared = shared

    @classmethod
    async def open(cls, settings: PoolSettings) -> Client:
        """Take part in the pool of this event loop that has these settings."""
        context = await to_thread.run_sync(_context, settings) if settings.secure else None
        pools = _pools.setdefault(asyncio.get_running_loop(), {})
        shared = pools.get(settings)
        if shared is None:
            pool = _make_pool(settings, context)
            shared = pools[settings] = _Shared(pool, IdleConnections(pool, settings.idle_seconds))
        shared.users += 1
        return cls(settings, shared)

    async def close(self) -> None:
        """Leave the pool; the last one closes its connections."""
        self._shared.users -= 1
        if self._shared.users == 0:
            del _pools[asyncio.get_running_loop()][self._settings]
            await self._shared.idle.stop()
            await self._shared.pool.aclose()

    def breaker(self, origin: Origin, most: int, seconds: float) -> Breaker:
        """The circuit breaker of a host, for all who are as patient with it."""
        breakers = self._shared.breakers
        found = breakers.get((origin, most, seconds))
        if found is None:
            found = breakers[origin, most, seconds] = Breaker(origin.authority, most, seconds)
        return found

    @asynccontextmanager
    async def exchange(
        self, message: Message, timeouts: dict[str, float], redirects: str = "same-origin"
    ) -> AsyncGenerator[httpx2.Response]:
        """What :meth:`send` answers, closed at the end."""
        response = await self.send(message, timeouts, redirects)
        try:
            yield response
        finally:
            await response.aclose()

    async def send(
        self,
        message: Message,
        timeouts: dict[str, float],
        redirects: str,
        proof: Proof | None = None,
        hosts: frozenset[str] = frozenset(),
    ) -> httpx2.Response:
        """Send, follow ``redirects``, and give the answer, its body still to be read; the caller closes it.

        ``redirects`` is what ``FOLLOW_REDIRECTS`` may be; none leads away from the host but to ``hosts``.
        ``proof`` is put on each message to the host itself. ``timeouts``: ``connect``, ``pool``, ``read`` and
        ``write``, in seconds. Raises as httpcore2 does.
        """
        hops = 0 if redirects == "never" else MOST_REDIRECTS
        for hop in range(hops + 1):
            response = await self._send(message if proof is None else proof(message), timeouts)
            following = following_of(message, response, redirects, hosts) if hop < hops else None
            if following is None:
                return response
            await response.aclose()
            if not stays(message.origin, following.origin):
                proof = None
            message = following
        raise AssertionError("the last answer is given back")

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
        place = await self._place(origin, timeouts["pool"])
        try:
            answer = await self._shared.pool.handle_async_request(request)
        except BaseException:
            place.release()
            raise
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, place, self._shared.idle)
        )

    async def _place(self, origin: Origin, seconds: float) -> asyncio.Semaphore:
        """One of the places that a host has, taken; whoever closes the answer gives it back."""
        place = self._shared.places.get(origin)
        if place is None:
            place = self._shared.places[origin] = asyncio.Semaphore(self._settings.per_host)
        if not place.locked():
            await place.acquire()
            return place
        try:
            async with asyncio.timeout(seconds):
                await place.acquire()
        except TimeoutError:
            raise httpcore2.PoolTimeout from None
        return place


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response, place: asyncio.Semaphore, idle: IdleConnections) -> None:
        self._answer = answer
        self._idle = idle
        self._place = place

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._answer.aiter_stream():
            yield chunk

    async def aclose(self) -> None:
        self._place.release()
        self._idle.there_may_be_some()
        if has_surplus(self._answer):
            # the pool takes a connection whose socket is closed for one that the service has ended
            await self._answer.extensions["network_stream"].aclose()
        await self._answer.aclose()


def _make_pool(settings: PoolSettings, context: ssl.SSLContext | None) -> httpcore2.AsyncConnectionPool:
    proxy = _proxy(settings.proxy) if settings.proxy else None
    return httpcore2.AsyncConnectionPool(
        ssl_context=context,
        proxy=proxy,
        max_connections=settings.connections,
        max_keepalive_connections=MOST_IDLE,
        keepalive_expiry=settings.idle_seconds,
        http2=settings.http2,
        network_backend=Network() if settings.private_networks else PublicOnly(),
    )


def _proxy(url: str) -> httpcore2.Proxy:
    parsed = httpx2.URL(url if "://" in url else f"http://{url}")
    auth = (parsed.username, parsed.password) if parsed.userinfo else None
    return httpcore2.Proxy(str(parsed.copy_with(userinfo=b"")), auth=auth)

"""The HTTP server: uvicorn inside the host's own event loop."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvicorn

from enginehost.address import binding_hint, format_address, is_loopback, own_side, parse_address
from enginehost.errors import ConfigError
from enginehost.serve.app import make_app
from enginehost.serve.crowd import Crowd, backlog, most_connections
from enginehost.serve.heads import MOST_HEAD_BYTES
from enginehost.serve.protocol import HttpProtocol

if TYPE_CHECKING:
    from enginehost.host import Host

_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep idle connections, so that none sends into one that closes."""

_LAST_WORDS_SECONDS = 0.2
"""How long the answers of calls that the server itself has ended may take."""


class _Server(uvicorn.Server):
    """uvicorn that tells when it listens, and leaves the signals to the host."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.leave = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """Renew what uvicorn renews each second (the ``Date`` header), until :attr:`leave` is set."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.leave.wait(), 1.0)


class HttpServer:
    """Serves ``host`` at ``address`` (``HOST:PORT``, default: the setting) on the running event loop."""

    def __init__(self, host: Host, address: str | None = None) -> None:
        self._host = host
        self._name, self._port = parse_address(address or host.settings.http.address)
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """``HOST:PORT`` with the port that is really bound."""
        return format_address(self._name, self._port)

    @property
    def is_open(self) -> bool:
        """Whether other machines reach it."""
        return not is_loopback(self._name)

    @property
    def url(self) -> str:
        """Where it is reached from this machine."""
        return f"http://{format_address(own_side(self._name), self._port)}"

    async def start(self) -> None:
        """Listen. Raises :class:`ConfigError` where the address cannot be had."""
        most = most_connections(self._host.settings.http.max_connections)
        listener = await self._bind(backlog(most))
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            make_app(self._host, self._name),
            http=_crowded(HttpProtocol, Crowd(most)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=backlog(most),
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=2 * MOST_HEAD_BYTES,  # what bounds a head is in heads.py
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve([listener]), name="enginehost-http")
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self, drain: float = 5.0) -> None:
        """Accept no further connection; wait for running responses up to ``drain`` seconds, then end them.

        A call that is ended is answered, unless its client has stopped reading: then its connection is cut.
        Stop the host first: until this returns, whoever still comes reads 503 (and ``/readyz`` says
        *draining*) rather than meeting a closed port.
        """
        if self._server is None or self._task is None:
            return
        self._server.config.timeout_graceful_shutdown = math.ceil(drain)
        self._server.should_exit = True
        self._server.leave.set()
        await asyncio.wait({self._task}, timeout=drain)
        _cut_silent(self._server)  # before uvicorn cancels their tasks, which would go on waiting for them
        await self._task
        if answering := self._server.server_state.tasks.copy():
            await asyncio.wait(answering, timeout=_LAST_WORDS_SECONDS)
            _cut_silent(self._server)
            await asyncio.wait(answering, timeout=_LAST_WORDS_SECONDS)
        self._server = self._task = None

    async def _bind(self, waiting: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._name, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            return _listener(*found[0][:3], found[0][4], waiting)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"HTTP cannot listen on {self.address}: {reason}",
                hint=binding_hint(error),
                reason="http-address",
            ) from error


def _cut_silent(server: uvicorn.Server) -> None:
    """Cut the connections of clients that do not read what is already sent to them."""
    connections: list[Any] = list(server.server_state.connections)
    for connection in connections:
        if connection.flow.write_paused:
            connection.transport.abort()


def _crowded(protocol: type[asyncio.Protocol], crowd: Crowd) -> type[asyncio.Protocol]:
    """``protocol`` for the connections of one server."""
    return type(protocol.__name__, (protocol,), {"crowd": crowd})


def _listener(family: int, kind: int, protocol: int, place: Any, waiting: int) -> socket.socket:
    # asyncio sends small answers at once (TCP_NODELAY) only where the socket names its protocol
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(waiting)
    except BaseException:
        listener.close()
        raise
    return listener

"""Connections that cost little a read: for thousands of answers at once, each of which comes token by token.

The library's own (over anyio, too) make a scope with a timer for each read, which takes longer than to read;
here one timer of a connection runs on from read to read.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.streams.tls
import httpcore2

_INFO: dict[str, Any] = {
    "ssl_object": anyio.streams.tls.TLSAttribute.ssl_object,
    "client_addr": anyio.abc.SocketAttribute.local_address,
    "server_addr": anyio.abc.SocketAttribute.remote_address,
    "socket": anyio.abc.SocketAttribute.raw_socket,
}


class Network(httpcore2.AsyncNetworkBackend):
    """Makes such connections; on asyncio's event loop."""

    async def address(self, host: str, port: int) -> str:
        """Where to connect to for a host; by default it itself. Raises ``httpcore2.ConnectError``."""
        return host

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host."""
        if socket_options:
            raise httpcore2.ConnectError("no options of sockets are taken")
        address = await self.address(host, port)
        with _connecting(), anyio.fail_after(timeout):
            return _Stream(await anyio.connect_tcp(address, port, local_host=local_address))

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Models are asked over TCP."""
        raise httpcore2.ConnectError("a model is not asked over a local socket")

    async def sleep(self, seconds: float) -> None:
        """Wait before another try to connect."""
        await anyio.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._reader: asyncio.Task[Any] | None = None
        """Who waits for bytes now."""
        self._until = 0.0
        self._late = False
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, at least a byte; nothing at the end."""
        try:
            if timeout is None:
                return await self._stream.receive(max_bytes)
            return await self._in_time(max_bytes, timeout)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpcore2.ReadError(str(error)) from error

    async def _in_time(self, max_bytes: int, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        self._until = loop.time() + seconds
        if self._timer is None or self._timer.when() > self._until:
            self._stop()
            self._timer = loop.call_later(seconds, self._look_at_the_clock)
        self._reader = task = asyncio.current_task()
        try:
            return await self._stream.receive(max_bytes)
        except asyncio.CancelledError:
            if self._late and task is not None and task.uncancel() == 0:
                raise httpcore2.ReadTimeout from None
            raise
        finally:
            self._reader, self._late = None, False

    def _look_at_the_clock(self) -> None:
        self._timer = None
        if self._reader is None:
            return
        loop = asyncio.get_running_loop()
        left = self._until - loop.time()
        if left > 0.0:
            self._timer = loop.call_later(left, self._look_at_the_clock)
        else:
            self._late = True
            self._reader.cancel()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        if not buffer:
            return
        try:
            with anyio.fail_after(timeout):
                await self._stream.send(buffer)
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(str(error)) from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpcore2.WriteError(str(error)) from error

    async def aclose(self) -> None:
        """Close the connection."""
        self._stop()
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """The same connection, encrypted."""
        try:
            with _connecting(), anyio.fail_after(timeout):
                stream = await anyio.streams.tls.TLSStream.wrap(
                    self._stream,
                    ssl_context=ssl_context,
                    hostname=server_hostname,
                    standard_compatible=False,
                    server_side=False,
                )
        except BaseException:
            await self.aclose()
            raise
        return _Stream(stream)

    def get_extra_info(self, info: str) -> Any:
        """What is known of the connection."""
        if info == "is_readable":
            return _readable(self.get_extra_info("socket"))
        return self._stream.extra(_INFO[info], None) if info in _INFO else None  # noqa: S610 - of no database


@contextmanager
def _connecting() -> Generator[None]:
    """Errors as those of the library."""
    try:
        yield
    except TimeoutError as error:
        raise httpcore2.ConnectTimeout(str(error)) from error
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:  # ssl.SSLError is an OSError
        raise httpcore2.ConnectError(str(error)) from error


def _readable(raw: socket.socket | None) -> bool:
    """Whether something has come that nobody has read; of a connection at rest: its end."""
    number = -1 if raw is None else raw.fileno()
    if number < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))

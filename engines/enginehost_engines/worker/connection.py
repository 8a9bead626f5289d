"""The host's end of the socket to a worker: frames out, frames in."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from enginehost_engines.worker.area import NOWHERE, Area
from enginehost_engines.worker.wire import FrameBuffer, frame

_log = logging.getLogger("enginehost.engine.worker")


class Connection(asyncio.BufferedProtocol):
    """One connection, from before it is made until it is lost.

    ``received`` hears each whole frame, ``lost`` once that no more will come, ``malformed`` that the worker
    does not speak our language.
    """

    def __init__(
        self,
        received: Callable[[int, int, bytes], None],
        lost: Callable[[], None],
        malformed: Callable[[], None],
    ) -> None:
        self.area = NOWHERE
        self.is_malformed = False
        """Whether the worker sent what nobody can read."""
        self._received = received
        self._lost = lost
        self._malformed = malformed
        self._transport: Any = None
        self._frames = FrameBuffer()
        self._out: list[bytes] = []

    def share(self, area: Area) -> None:
        """Use memory that the worker shares; before the connection is made."""
        self.area = area
        self._frames = FrameBuffer(area)

    @property
    def made(self) -> bool:
        """Whether the transport has taken the socket over."""
        return self._transport is not None

    def send(self, kind: int, call_id: int, payload: bytes = b"", *, now: bool = False) -> None:
        """Send a frame, in one piece with all others of this turn of the loop.

        ``now``: at once. The worker then begins while the loop still turns; but each frame is a system call.
        """
        out = self._out
        if now and not out and not self._transport.get_write_buffer_size():
            self._write_now(frame(kind, call_id, payload, self.area))
            return
        out.append(frame(kind, call_id, payload, self.area))
        if len(out) == 1:
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close it once what was sent is written."""
        self._flush()
        self._transport.close()

    def _write_now(self, data: bytes) -> None:
        """Past the transport, which sends when the loop's turn ends; what the socket does not take is its."""
        if self._transport.is_closing():
            return
        try:
            sent = os.write(self._socket, data)
        except OSError:  # full, or closed by the other side
            sent = 0
        if sent < len(data):
            self._transport.write(data[sent:])

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def abort(self) -> None:
        """Close it now, and let the shared memory go."""
        if self._transport is not None:
            self._transport.abort()
        self.area.close()

    # what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = transport
        self._socket = transport.get_extra_info("socket").fileno()
        self._loop = asyncio.get_running_loop()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, by either side."""
        self._lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come."""
        try:
            for one in self._frames.filled(nbytes):
                self._received(*one)
        except Exception as error:  # noqa: BLE001 - whatever a script wrote to the socket, it hurts its worker only
            _log.warning("a worker process sent what is no frame (%s)", type(error).__name__)
            self.is_malformed = True
            self._malformed()
            self._transport.abort()

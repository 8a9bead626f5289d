"""The worker's end of the socket on an event loop: frames in, answers out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from enginehost_engines.worker import memory_guard
from enginehost_engines.worker.area import Area
from enginehost_engines.worker.wire import Frame, FrameBuffer, frame


class AsyncChannel:
    """Reads what there is and hands it on, frame by frame; what is answered meanwhile goes out in one piece.

    ``received`` hears each frame, ``gone`` once that the host has gone. (Neither asyncio's streams nor its
    protocols: a call of a few microseconds is worth fewer steps.)
    """

    def __init__(
        self, sock: socket.socket, area: Area, received: Callable[[Frame], None], gone: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._received = received
        self._gone = gone
        self._area = area
        self._buffer = FrameBuffer(area)
        self._filled = memory_guard.without(self._buffer.filled, renews=False)
        self._flush = memory_guard.without(self._send_out, renews=False)
        self._writable = memory_guard.without(self._write_on, renews=False)
        self._out: list[bytes] = []
        self._unsent = b""
        self._flushing = False
        """Whether a flush will come without being asked for."""
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, kind: int, call_id: int, payload: bytes = b"") -> None:
        """Send a frame soon: in one piece with all that this turn of the loop has to say."""
        self._out.append(frame(kind, call_id, payload, self._area))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Read and write no more."""
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        try:
            count = self._sock.recv_into(self._buffer.room())
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            count = 0
        if not count:
            self._lost()
            return
        flushing, self._flushing = self._flushing, True
        for one in self._filled(count):
            self._received(one)
        self._flushing = flushing
        if not flushing:
            self._flush()

    def _send_out(self) -> None:
        self._flushing = False
        out, self._out = self._out, []
        if self._unsent:
            self._unsent += b"".join(out)
        elif out:
            self._write(out[0] if len(out) == 1 else b"".join(out))

    def _write(self, data: bytes) -> None:
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except ConnectionError:
            self._lost()
            return
        if sent < len(data):
            if not self._unsent:
                self._loop.add_writer(self._sock.fileno(), self._writable)
            self._unsent = data[sent:]
        elif self._unsent:
            self._unsent = b""
            self._loop.remove_writer(self._sock.fileno())

    def _write_on(self) -> None:
        self._write(self._unsent)

    def _lost(self) -> None:
        self.close()
        self._gone()

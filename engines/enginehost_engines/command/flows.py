"""What a running program prints: its output, held back until it is read, and the end of its complaints."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

SILENCE_SECONDS = 0.2
"""How long after its program's end an output is listened to; who was left behind may hold it for ever."""

_AFTER_END_BYTES = 4 * 1024 * 1024
"""What may still come then: more than any pipe holds."""

_HELD_BYTES = 256 * 1024
"""What of an output may wait here for its reader; then the program has to wait."""

_TAIL_BYTES = 8 * 1024
_LOGGED_BYTES = 64 * 1024
_LONGEST_LINE = 4 * 1024


class Flow(asyncio.Protocol):
    """One of a program's outputs: ends with its last writer, or soon after the program.

    ``over`` is done when nothing more will come.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._transport: Any = None
        self._paused = False
        self._heard = False
        self._left: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """Something came."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pipe is open."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take it, within what there may be after the end."""
        self._heard = True
        self.take(data)
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The last writer has gone, or :meth:`close` was called."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.over.done():
            self.over.set_result(None)

    def program_ended(self) -> None:
        """Stop listening once there is silence: what is in the pipe is still read."""
        if self.over.done():
            return
        self._left = _AFTER_END_BYTES
        self._heard = True
        self._listen_on()

    def close(self) -> None:
        """Nobody listens any more."""
        if self._transport is not None:
            self._transport.close()

    def _listen_on(self) -> None:
        if self._heard or self._paused:
            self._heard = False
            self._timer = self._loop.call_later(SILENCE_SECONDS, self._listen_on)
        else:
            self._transport.close()


class Printed(Flow):
    """The standard output. What is not read holds the program up."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._wake: asyncio.Future[None] | None = None

    def take(self, data: bytes) -> None:
        """Keep it for the reader."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= _HELD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._notify()

    def connection_lost(self, exc: Exception | None) -> None:
        """The reader gets what there is."""
        super().connection_lost(exc)
        self._notify()

    async def read(self) -> bytes:
        """What came next; ``b""`` at the end."""
        while not self._pieces:
            if self.over.done():
                return b""
            self._wake = self._loop.create_future()
            await self._wake
        piece = self._pieces.popleft()
        self._held -= len(piece)
        if self._paused and self._held < _HELD_BYTES // 2:
            self._paused = False
            self._heard = True
            if not self.over.done():
                self._transport.resume_reading()
        return piece

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Complaints(Flow):
    """The standard error: logged as it comes, up to a limit, and its end kept for an error's text."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log
        self._logged = 0
        self._line = b""
        self._tail = b""

    @property
    def text(self) -> str:
        """The end of what was said."""
        return self._tail.decode("utf-8", "replace")

    def take(self, data: bytes) -> None:
        """Log whole lines, keep the end."""
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if self._logged < _LOGGED_BYTES:
            *lines, rest = (self._line + data).split(b"\n")
            self._line = rest[-_LONGEST_LINE:]
            for line in lines:
                self._tell(line)

    def connection_lost(self, exc: Exception | None) -> None:
        """Log the line that was not ended."""
        super().connection_lost(exc)
        if self._line:
            self._tell(self._line)

    def _tell(self, line: bytes) -> None:
        if self._logged >= _LOGGED_BYTES:
            return
        self._logged += len(line) + 1
        self._log.info("%s", line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r"))
        if self._logged >= _LOGGED_BYTES:
            self._log.info("more than %d bytes on its standard error: no more of it is logged", _LOGGED_BYTES)

"""What a worker prints: sent to the host as log lines of the call that printed them."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

CALL_ID: ContextVar[int] = ContextVar("call_id", default=0)
"""The call that runs here (0: none)."""

MOST_BYTES = 256 * 1024
"""What one call may print; the rest is counted and dropped."""

_MOST_CALLS = 10_000
"""Calls of which is remembered what they printed: threads may print for one that is long over."""

TELLING = 0
"""The level of what is for the caller, not for the log."""

SendLog = Callable[[int, int, Any], None]
"""Sends ``(call id, level, text)``."""


class Output:
    """The standard streams and the root logger of this process, turned into log frames."""

    def __init__(self, send: SendLog) -> None:
        self._send = send
        self._sent: dict[int, int] = {}
        self._since = 0.0
        # kept: code that puts its own streams in their place would let them be collected, and so closed
        self._streams = (_stream(self, logging.INFO), _stream(self, logging.WARNING))

    def install(self, level: str) -> None:
        """Take over ``sys.stdout``, ``sys.stderr`` and logging from ``level`` on."""
        sys.stdout, sys.stderr = self._streams
        root = logging.getLogger()
        root.setLevel(level)
        root.addHandler(_Handler(self))

    def redirect(self, send: SendLog) -> None:
        """From now on send with ``send``."""
        self._send = send

    def write(self, level: int, text: str) -> None:
        """Send ``text`` as the current call's, within its allowance; that of no call is for a second."""
        call_id = CALL_ID.get()
        if not call_id and (now := time.monotonic()) - self._since >= 1:
            self._since = now
            self._say_dropped(0)
        before = self._sent.get(call_id, 0)
        self._sent[call_id] = before + len(text)
        if before < MOST_BYTES:
            self._send(call_id, level, text[: MOST_BYTES - before].rstrip("\n"))

    def tell(self, told: dict[str, Any]) -> None:
        """Tell the caller of the current call something, within the call's allowance."""
        call_id = CALL_ID.get()
        before = self._sent.get(call_id, 0)
        self._sent[call_id] = before + len(str(told))
        if call_id and before < MOST_BYTES:
            self._send(call_id, TELLING, told)

    def ended(self, call_id: int) -> None:
        """The call is over: send what is buffered, say what was dropped."""
        ours = self._streams
        if sys.stdout is not ours[0] or sys.stderr is not ours[1]:
            _flush(sys.stdout)
            _flush(sys.stderr)
        for stream in ours:
            _flush(stream)
        self._say_dropped(call_id)

    def _say_dropped(self, call_id: int) -> None:
        sent = self._sent.pop(call_id, 0)
        if len(self._sent) > _MOST_CALLS:
            self._sent.clear()
        if sent > MOST_BYTES:
            self._send(call_id, logging.WARNING, f"{sent - MOST_BYTES} further characters of output dropped")


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except BaseException:  # noqa: BLE001 - code may have closed it, or have put anything in its place
        return


def _stream(output: Output, level: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_Raw(output, level))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class _Raw(io.RawIOBase):
    """The bottom of a standard stream."""

    def __init__(self, output: Output, level: int) -> None:
        self._output = output
        self._level = level

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        raw = bytes(data)
        self._output.write(self._level, raw.decode("utf-8", "replace"))
        return len(raw)


class _Handler(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._output.write(record.levelno, self.format(record))

"""A worker process, once it runs: load what the first frame names, then serve calls until the host goes."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from enginehost.errors import EngineHostError
from enginehost.tracebacks import author_traceback, cause_traceback, place_of
from enginehost.values import pack, unpack
from enginehost_engines.worker import calls, forks, memory_guard
from enginehost_engines.worker.area import NOWHERE, Area
from enginehost_engines.worker.imports import Imports
from enginehost_engines.worker.output import Output
from enginehost_engines.worker.targets import Target, load
from enginehost_engines.worker.wire import CANCEL, ERROR, FAILED, LOG, Frame, FrameBuffer, frame

_MOST_TEXT = 16 * 1024
"""Characters of a message or traceback that travel."""


class HostGone(SystemExit):
    """Nobody is there to answer to: this process ends."""


class Channel:
    """The socket to the host, read and written by blocking calls."""

    def __init__(self, sock: socket.socket, area: Area = NOWHERE) -> None:
        self.sock = sock
        self.area = area
        self._buffer = FrameBuffer(area)
        self._frames: list[Frame] = []
        """Those that wait, the next one last."""
        self._fresh = True
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        self._poll = poll.poll
        self._sending = threading.Lock()  # a frame is written whole, whichever thread writes

    def receive(self) -> Frame | None:
        """The next frame; ``None`` when the host is gone."""
        self._fresh = not self._frames
        while not self._frames:
            count = self._read()
            if not count:
                return None
            self._frames = self._buffer.filled(count)
            self._frames.reverse()
        return self._frames.pop()

    def waiting(self) -> bool:
        """Whether :meth:`receive` would answer at once."""
        return bool(self._frames) or bool(self._poll(0))

    def revoked(self, call_id: int) -> bool:
        """Whether the call that was received last waited here, and the host has taken it back meanwhile."""
        if self._fresh:
            return False
        if self._poll(0) and (count := self._read()):
            self._frames[:0] = reversed(self._buffer.filled(count))
        return any(kind == CANCEL and about == call_id for kind, about, _ in self._frames)

    def send(self, kind: int, call_id: int, payload: bytes = b"") -> None:
        """Send one frame. Raises :class:`HostGone`."""
        try:
            with self._sending:
                self.sock.sendall(frame(kind, call_id, payload, self.area))
        except ConnectionError:
            raise HostGone from None

    def send_log(self, call_id: int, level: int, text: Any) -> None:
        """Send what a call printed; into the void where the host is gone."""
        with suppress(HostGone):
            self.send(LOG, call_id, log_payload(level, text))

    def fail(self, call_id: int, error: BaseException) -> None:
        """Answer a call with what it raised."""
        self.send(ERROR, call_id, describe(error))

    def fail_to_load(self, error: BaseException, imports: Imports) -> None:
        """Say why there is nothing to call, and which files may be at fault."""
        imports.add_those_behind(error)
        place = place_of(error, imports.folders)
        body = {
            "error": describe(error, author_traceback(error)),
            "place": str(place or ""),
            "files": imports.files,
        }
        self.send(FAILED, 0, pack(body))

    def _read(self) -> int:
        try:
            return self.sock.recv_into(self._buffer.room())
        except ConnectionError:
            return 0


def log_payload(level: int, text: Any) -> bytes:
    """The payload of a LOG frame. What is no text is told to the caller, and has to have a JSON form."""
    with memory_guard.lifted:
        return pack([level, _valid(text) if isinstance(text, str) else text])


def describe(error: BaseException, traceback: str | None = None) -> bytes:
    """An exception as it travels: its class, its text, its traceback; an error of the tree whole.

    ``traceback`` in place of the one that it has.
    """
    with memory_guard.lifted:
        return _described(error, traceback)


def _described(error: BaseException, traceback: str | None) -> bytes:
    text = cause_traceback(error) if traceback is None else traceback
    said = _text_of(error)
    body: dict[str, Any] = {
        "type": type(error).__name__,
        "message": memory_guard.explained(error, said),
        "traceback": _valid(text[-_MOST_TEXT:]),
    }
    if isinstance(error, EngineHostError):
        try:
            return pack({**body, "error": error.to_json()})
        except ValueError:
            pass  # a detail that cannot travel; the text can
    return pack(body)


def _text_of(error: BaseException) -> str:
    try:
        return _valid(str(error)[:_MOST_TEXT])
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return "(its text could not be made)"


def _valid(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def serve(sock: socket.socket, area: int) -> None:
    """Serve the host on ``sock`` until it closes the connection; ``area`` is a descriptor of memory."""
    channel = Channel(sock, Area.of(area, host=False))
    forks.shut_out(sock)
    first = channel.receive()
    if first is None:
        return
    order = unpack(first[2])
    imports = Imports([*order["folders"], order["root"]], order.get("script", ""))
    output = Output(channel.send_log)
    output.install(order["level"])
    calls.tell = output.tell
    if order["concurrent"]:
        from enginehost_engines.worker.async_server import serve_concurrently

        serve_concurrently(channel, output, order, imports)
        return
    target = _load(channel, order, imports)
    if target is not None:
        from enginehost_engines.worker.sync_server import SyncServer

        output.ended(0)
        SyncServer(channel, output, target, imports).run()


def _load(channel: Channel, order: Mapping[str, Any], imports: Imports) -> Target | None:
    try:
        target = load(order)
        memory_guard.arm(order["memory_mb"])
    except BaseException as error:  # noqa: BLE001 - a script may raise anything, SystemExit too
        channel.fail_to_load(error, imports)
        return None
    return target


def about(target: Target, imports: Imports) -> bytes:
    """The payload of READY and CHANGED."""
    with memory_guard.lifted:
        imports.grew()
        return pack({"about": target.info(), "files": imports.files})

"""One worker process, seen from the host."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import enginehost
import enginehost_engines
from enginehost.values import pack, unpack
from enginehost_engines.process_exit import watch_exit
from enginehost_engines.worker.failures import died, failure, load_failure
from enginehost_engines.worker.replies import Reply
from enginehost_engines.worker.wire import (
    CANCEL,
    CANCELLING,
    CHANGED,
    FAILED,
    HEADER,
    LOAD,
    LOG,
    MOST_BYTES,
    READY,
    frame,
)

_COMMAND = ("-X", "faulthandler", str(Path(__file__).with_name("worker_main.py")))
_PACKAGES = [str(Path(package.__path__[0])) for package in (enginehost, enginehost_engines)]

CANCEL_SECONDS = 1.0
"""How soon a worker must show that it heard a CANCEL; then it counts as stuck and is killed."""

CLOSE_SECONDS = 3.0
"""How long a worker may take to end by itself."""

LAST_WORDS_SECONDS = 0.1
"""How long after its end a worker is listened to; whoever it left behind may hold its outputs for ever."""

_READ_BYTES = 256 * 1024

_SOCKET_BYTES = 1024 * 1024
"""What the kernel may hold of large messages, as far as it lets us: fewer turns of both processes."""


Files = Mapping[str, tuple[int, int]]
"""Files that a worker imported, each with what changes when the file changes."""

_owners = itertools.count(1)


@dataclass(frozen=True)
class WorkerSpec:
    """What makes two workers the same.

    ``order`` is the packed LOAD frame, ``origin`` names the code that it loads, ``version`` changes with
    that code; ``concurrent`` workers serve many calls at once; ``pinned`` ones have state, so nothing but
    their owner ends them. Workers end after ``idle`` seconds without a call (``None``: never). Only engines
    whose ``owner`` is the same share workers.
    """

    order: bytes = field(repr=False)  # it holds secrets
    origin: str
    concurrent: bool = False
    pinned: bool = False
    version: tuple[int, ...] = ()
    idle: float | None = None
    owner: int = 0
    interpreter: str = sys.executable

    @classmethod
    def of(cls, order: Mapping[str, Any], origin: str, **fields: Any) -> WorkerSpec:
        """The spec of a worker that loads ``order``. Concurrent ones are never shared.

        (A call that blocks or ends such a process takes all others on it along.)
        """
        concurrent = bool(fields.get("concurrent", False))
        owner = next(_owners) if concurrent else 0
        return cls(pack({**order, "concurrent": concurrent}), origin, owner=owner, **fields)


@dataclass(eq=False)
class Worker(asyncio.BufferedProtocol):
    """A running worker process.

    ``on_end`` hears once that it is gone, ``on_news`` that ``info``, what it says of its target, or
    ``files``, what it imported of the user's own, have changed. ``usable`` workers can take a call. ``log``
    is where the output goes that no call made.
    """

    spec: WorkerSpec
    log: logging.Logger
    on_end: Callable[[Worker], None]
    on_news: Callable[[Worker], None]
    info: Any = None
    files: Files = field(default_factory=dict[str, tuple[int, int]])
    leases: int = 0
    used_at: float = 0.0
    idle_timer: asyncio.TimerHandle | None = None
    usable: bool = True
    ended: bool = False
    _replies: dict[int, Reply] = field(default_factory=dict)
    _last_id: int = 0
    _transport: Any = None
    _listening: asyncio.ReadTransport | None = None
    _lost: bool = False
    _forced: asyncio.TimerHandle | None = None
    _buffer: bytearray = field(default_factory=lambda: bytearray(_READ_BYTES), repr=False)
    _filled: int = 0

    def __post_init__(self) -> None:
        self._view = memoryview(self._buffer)

    # start

    async def start(self) -> None:
        """Start the process and wait until its target is loaded.

        Raises ``EngineUnavailable``, and ``OSError`` where no process can be started.
        """
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._spawn()
        # a task of its own: one that is cancelled half-way would leave open who closes the files
        connecting = self._loop.create_task(self._connect(), name="enginehost-worker-connect")
        connecting.add_done_callback(lambda _: watch_exit(self._process, self._loop, self._exited))
        try:
            await asyncio.shield(connecting)
            self._transport.write(frame(LOAD, 0, self.spec.order))
            await self._loaded
        except BaseException:
            self._loaded.cancel()  # nobody asks what became of it
            self.kill()
            await self._gone.wait()
            raise

    def _spawn(self) -> None:
        self._socket, theirs = socket.socketpair()
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self._output, output = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter is the host's or a setting's
                [self.spec.interpreter, *_COMMAND, str(theirs.fileno()), str(os.getpid()), *_PACKAGES],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={key: text for key, text in os.environ.items() if not key.startswith("ENGINEHOST_")},
                start_new_session=True,  # so that killing it takes the processes it started too
            )
        except BaseException:
            self._socket.close()
            os.close(self._output)
            raise
        finally:
            theirs.close()
            os.close(output)

    async def _connect(self) -> None:
        await self._read_output()
        await self._loop.create_connection(lambda: self, sock=self._socket)

    async def _read_output(self) -> None:
        """Log what is written past Python's streams (C libraries, the interpreter's last words)."""
        pipe = os.fdopen(self._output, "rb", 0)
        self._listening, _ = await self._loop.connect_read_pipe(lambda: _OutputLines(self.log), pipe)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    # calls

    @property
    def busy(self) -> bool:
        """Whether calls run on it."""
        return bool(self._replies)

    def send(self, kind: int, payload: bytes, reply: Reply) -> int:
        """Start a call or stream; what comes back goes to ``reply``. The call's id on this worker."""
        self._last_id = call_id = (self._last_id + 1) & 0xFFFFFFFF or 1
        self._transport.write(frame(kind, call_id, payload))
        self._replies[call_id] = reply
        return call_id

    def say(self, kind: int, call_id: int, payload: bytes = b"") -> None:
        """Send a frame about a call that runs."""
        if not self._transport.is_closing():
            self._transport.write(frame(kind, call_id, payload))

    def abandon(self, call_id: int) -> None:
        """Nobody waits for this call any more: end it, by force where it does not listen."""
        reply = self._replies.get(call_id)
        if reply is None or self.ended:
            return
        reply.abandoned = self._loop.call_later(CANCEL_SECONDS, self.kill)
        self.say(CANCEL, call_id)

    # frames

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come: whole frames are answered, a begun one is kept."""
        self._filled += nbytes
        start, needed = 0, 0
        while self._filled - start >= HEADER.size:
            length, kind, call_id = HEADER.unpack_from(self._buffer, start)
            body = start + HEADER.size
            needed = HEADER.size + length
            if length > MOST_BYTES:
                self.kill()  # it does not speak our language
                return
            if self._filled - body < length:
                break
            start = body + length
            self._received(kind, call_id, bytes(self._view[body:start]))
        self._keep_from(start, max(_READ_BYTES, needed))

    def _keep_from(self, start: int, size: int) -> None:
        """Move the begun frame to the front of a buffer that holds it whole."""
        rest = self._filled - start
        if size != len(self._buffer):
            buffer = bytearray(size)
            buffer[:rest] = self._view[start : self._filled]
            self._buffer, self._view = buffer, memoryview(buffer)
        elif start and rest:
            self._buffer[:rest] = self._buffer[start : self._filled]
        self._filled = rest

    def _received(self, kind: int, call_id: int, payload: bytes) -> None:
        if kind == LOG:
            self._log(call_id, payload)
        elif kind == CANCELLING:
            reply = self._replies.get(call_id)
            if reply is not None:
                reply.stop_timer()
        elif call_id:
            reply = self._replies.get(call_id)
            if reply is not None and reply.received(kind, payload):
                reply.stop_timer()
                del self._replies[call_id]
        elif not self._loaded.done():
            self._ready(kind, payload)
        elif kind == CHANGED:
            self._read_news(payload)
            self.on_news(self)

    def _ready(self, kind: int, payload: bytes) -> None:
        if kind == READY:
            self._read_news(payload)
            self._loaded.set_result(None)
        elif kind == FAILED:
            body = unpack(payload)
            self.files = body["files"]
            self._loaded.set_exception(load_failure(failure(body["error"]), body["place"]))

    def _read_news(self, payload: bytes) -> None:
        body = unpack(payload)
        self.info, self.files = body["about"], body["files"]

    def _log(self, call_id: int, payload: bytes) -> None:
        level, text = unpack(payload)
        reply = self._replies.get(call_id)
        log = reply.log if reply is not None else self.log
        for line in text.splitlines():
            log.log(level, "%s", line)

    # end

    def close(self) -> None:
        """Let it end by itself; by force after :data:`CLOSE_SECONDS`."""
        self.usable = False
        self._transport.close()

    def kill(self) -> None:
        """End it now, with the processes it started."""
        self.usable = False
        if self._process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: all that is left of it are zombies
            os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until the process has ended and is reaped."""
        await self._gone.wait()

    def _exited(self) -> None:
        self.usable = False
        self._kill_group()  # what it left behind; its process group is ours until it is reaped
        self._process.wait()
        if self._transport is None:
            self._socket.close()
        self._forced = self._replace_timer(LAST_WORDS_SECONDS, self._finish)
        if self._listening is not None:
            self._loop.call_later(LAST_WORDS_SECONDS, self._listening.close)
        if self._transport is None or self._lost:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, by either side: the process has to end now."""
        self._lost, self.usable = True, False
        if self._process.returncode is not None:
            self._finish()
        else:
            self._forced = self._replace_timer(CLOSE_SECONDS, self.kill)

    def _replace_timer(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        if self._forced is not None:
            self._forced.cancel()
        return self._loop.call_later(seconds, action)

    def _finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._forced is not None:
            self._forced.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._answer_the_rest()
        self._gone.set()
        self.on_end(self)

    def _answer_the_rest(self) -> None:
        returncode, alone = self._process.returncode or 0, len(self._replies) == 1
        if not self._loaded.done():
            self._loaded.set_exception(load_failure(died(returncode, "", alone=True)))
        for reply in self._replies.values():
            reply.stop_timer()
            reply.died(died(returncode, reply.name, alone))
        self._replies.clear()


class _OutputLines(asyncio.Protocol):
    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def data_received(self, data: bytes) -> None:
        for line in data.decode("utf-8", "replace").splitlines():
            self._log.warning("%s", line)

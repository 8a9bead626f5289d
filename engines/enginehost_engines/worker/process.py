"""One worker process, seen from the host."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from enginehost.values import unpack
from enginehost_engines.process_exit import watch_exit
from enginehost_engines.worker.connection import Connection
from enginehost_engines.worker.failures import died, exit_reason, failure, load_failure
from enginehost_engines.worker.memory import MB, own_bytes, tree_uses
from enginehost_engines.worker.orphans import new_mark, orphans_of
from enginehost_engines.worker.output import TELLING
from enginehost_engines.worker.raw_output import LogBudget, RawOutput
from enginehost_engines.worker.replies import Reply
from enginehost_engines.worker.spawn import spawn
from enginehost_engines.worker.spec import Files, WorkerSpec
from enginehost_engines.worker.wire import CANCEL, CANCELLING, CHANGED, FAILED, LOAD, LOG, READY

CANCEL_SECONDS = 1.0
"""How soon a worker must show that it heard a CANCEL; then it counts as stuck and is killed."""

_ONE_BY_ONE = 8
"""After so many calls one by one, the next is sent at once; where several come together, a turn of the loop
sends them in one piece, which costs each less."""

WEIGH_SECONDS = 0.1
"""How often a worker whose memory is limited is looked at."""

CLOSE_SECONDS = 3.0
"""How long a worker may take to end by itself."""

DYING_SECONDS = 0.25
"""How long it may live on without its connection where calls wait for it."""

LAST_WORDS_SECONDS = 0.1
"""How long after its end a worker is listened to; whoever it left behind may hold its outputs for ever."""


class Keeper(Protocol):
    """Who owns a worker, and hears of it."""

    def ended(self, worker: Worker) -> None:
        """It has gone; told once."""
        ...

    def told(self, worker: Worker) -> None:
        """``info`` or ``files`` have changed."""
        ...

    def heard(self, worker: Worker) -> None:
        """It has heard all cancellations."""
        ...

    def answered(self, worker: Worker) -> None:
        """A call is over, on a worker that wears out."""
        ...


@dataclass(eq=False)
class Worker:
    """A running worker process.

    ``info`` is what it says of its target, ``files`` what it imported of the user's own. ``usable`` workers
    can take a call; ``worn`` ones are about to be replaced; ``unheard`` are the calls whose cancellation it
    has not heard yet: it may be stuck. ``log`` is where the output goes that no call made.
    """

    spec: WorkerSpec
    log: logging.Logger
    keeper: Keeper
    info: Any = None
    files: Files = field(default_factory=dict[str, tuple[int, int]])
    leases: int = 0
    used_at: float = 0.0
    started_at: float = 0.0
    idle_timer: asyncio.TimerHandle | None = None
    usable: bool = True
    worn: bool = False
    ended: bool = False
    unheard: set[int] = field(default_factory=set[int])
    _replies: dict[int, Reply] = field(default_factory=dict)
    _last_id: int = 0
    _alone: int = 0
    """How many calls in a row found it without another."""
    _listening: asyncio.ReadTransport | None = None
    _lost: bool = False
    _forced: asyncio.TimerHandle | None = None
    _weighing: asyncio.TimerHandle | None = None
    _searching: asyncio.Task[None] | None = None
    _patience: float = CLOSE_SECONDS
    _why: str = ""
    """What it was killed for."""

    def __post_init__(self) -> None:
        malformed = partial(self.kill, "killed, since what it sent is not what workers send")
        self.connection = Connection(self._received, self._lost_connection, malformed)
        self._mark = new_mark()
        self._recycles = self.spec.limits.recycles
        self._budget = LogBudget(self.log.warning)

    # start

    async def start(self) -> None:
        """Start the process and wait until its target is loaded.

        Raises ``EngineUnavailable``, and ``OSError`` where no process can be started.
        """
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._gone, self._silent = asyncio.Event(), asyncio.Event()
        started = spawn(Path(self.spec.interpreter), self._mark)
        self._process, self._socket, self._output = started.process, started.socket, started.output
        self.connection.share(started.area)
        # a task of its own: one that is cancelled half-way would leave open who closes the files
        connecting = self._loop.create_task(self._connect(), name="enginehost-worker-connect")
        connecting.add_done_callback(lambda _: watch_exit(self._process, self._loop, self._exited))
        try:
            await asyncio.shield(connecting)
            if self.spec.limits.memory_mb:
                self._weigh()
            self.connection.send(LOAD, 0, self.spec.order)
            await self._loaded
        except BaseException:
            self._loaded.cancel()  # nobody asks what became of it
            self.kill()
            await self.gone()
            raise

    async def _connect(self) -> None:
        await self._read_output()
        await self._loop.create_connection(lambda: self.connection, sock=self._socket)

    async def _read_output(self) -> None:
        pipe, output = os.fdopen(self._output, "rb", 0), partial(RawOutput, self._log_raw, self._silent.set)
        self._listening, _ = await self._loop.connect_read_pipe(output, pipe)

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
        self._alone = 0 if self._replies else self._alone + 1
        self.connection.send(kind, call_id, payload, now=self._alone > _ONE_BY_ONE)
        self._replies[call_id] = reply
        return call_id

    def say(self, kind: int, call_id: int, payload: bytes = b"") -> None:
        """Send a frame about a call that runs."""
        self.connection.send(kind, call_id, payload)

    def abandon(self, call_id: int) -> None:
        """Nobody waits for this call any more: end it, by force where it does not listen."""
        reply = self._replies.get(call_id)
        if reply is None or self.ended:
            return
        why = "killed, since a call on it went on after it was cancelled"
        reply.force_after(self._loop.call_later(CANCEL_SECONDS, self.kill, why))
        if self.spec.concurrent:
            self.unheard.add(call_id)
        self.say(CANCEL, call_id)

    def is_worn(self) -> bool:
        """Whether it has served as much as one worker should."""
        limits = self.spec.limits
        if limits.max_calls and self._last_id >= limits.max_calls:
            return True
        return bool(limits.recycle_mb) and own_bytes(self.pid) > limits.recycle_mb * MB

    # frames

    def _received(self, kind: int, call_id: int, payload: bytes) -> None:
        if kind == LOG:
            self._log(call_id, payload)
        elif kind == CANCELLING:
            reply = self._replies.get(call_id)
            if reply is not None:
                reply.stop_timer()
            self._heard(call_id)
        elif call_id:
            reply = self._replies.get(call_id)
            if reply is not None and reply.received(kind, payload):
                reply.stop_timer()
                del self._replies[call_id]
                if self.unheard:
                    self._heard(call_id)
                if self._recycles:
                    self.keeper.answered(self)
        elif not self._loaded.done():
            self._ready(kind, payload)
        elif kind == CHANGED:
            self._read_news(payload)
            self.keeper.told(self)

    def _heard(self, call_id: int) -> None:
        self.unheard.discard(call_id)
        if not self.unheard and self.usable:
            self.keeper.heard(self)

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
        if level == TELLING:
            self._tell(text, self._replies.get(call_id))
        elif self._budget.allows(len(text)):
            self._log_lines(level, text, self._replies.get(call_id))

    def _tell(self, told: Any, reply: Reply | None) -> None:
        if reply is not None and reply.call is not None and reply.call.tell is not None:
            reply.call.tell(told)

    def _log_raw(self, text: str) -> None:
        """What no call is named for is that of the one which runs, where there is but one."""
        if self._budget.allows(len(text)):
            only = next(iter(self._replies.values())) if len(self._replies) == 1 else None
            self._log_lines(logging.WARNING, text, only)

    def _log_lines(self, level: int, text: str, reply: Reply | None) -> None:
        log, call = (self.log, None) if reply is None else (reply.log, reply.call)
        ids = {"call_id": call.call_id, "chain_id": call.chain_id} if call is not None else None
        for line in text.splitlines():
            log.log(level, "%s", line, extra=ids)

    def _weigh(self) -> None:
        limit = self.spec.limits.memory_mb
        if tree_uses(self.pid, limit * MB):
            self.kill(f"killed, since it used more than PYTHON_MEMORY_MB = {limit}")
        else:
            self._weighing = self._loop.call_later(WEIGH_SECONDS, self._weigh)

    # end

    def close(self, patience: float | None = None) -> None:
        """Let it end by itself; by force after so many seconds (:data:`CLOSE_SECONDS`)."""
        self.usable, self._patience = False, CLOSE_SECONDS if patience is None else patience
        self.connection.close()

    def kill(self, why: str = "") -> None:
        """End it now, with the processes it started; ``why`` is what its calls are told."""
        self.usable = False
        if self._process.returncode is None:
            self._why = self._why or why
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: all that is left of it are zombies
            os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until the process has ended and is reaped, and with it all that it left behind."""
        await self._gone.wait()
        if self._searching is not None:
            await asyncio.shield(self._searching)
        if self._listening is not None:
            await self._silent.wait()

    def _exited(self) -> None:
        self.usable = False
        self._kill_group()  # what it left behind; its process group is ours until it is reaped
        self._process.wait()
        if not self.connection.made:
            self._socket.close()
        self._forced = self._replace_timer(LAST_WORDS_SECONDS, self._finish)
        if self._listening is not None:
            self._loop.call_later(LAST_WORDS_SECONDS, self._listening.close)
        if not self.connection.made or self._lost:
            self._finish()

    def _lost_connection(self) -> None:
        """The socket is closed, by either side: the process has to end now."""
        self._lost, self.usable = True, False
        if self._process.returncode is not None:
            self._finish()
        elif self._replies:  # nobody will answer them any more; most likely it is dying
            why = "killed, since it closed its connection to the host"
            self._forced = self._replace_timer(DYING_SECONDS, partial(self.kill, why))
        else:
            self._forced = self._replace_timer(self._patience, self.kill)

    def _replace_timer(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        if self._forced is not None:
            self._forced.cancel()
        return self._loop.call_later(seconds, action)

    def _finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        for timer in (self._forced, self._weighing):
            if timer is not None:
                timer.cancel()
        self._answer_the_rest()
        self.connection.abort()
        searching = orphans_of(self._loop).end(self._mark)
        self._searching = self._loop.create_task(searching, name="enginehost-worker-orphans")
        self._gone.set()
        self.keeper.ended(self)

    def _answer_the_rest(self) -> None:
        how = self._why or exit_reason(self._process.returncode or 0, self.spec.limits.memory_mb)
        if not self._loaded.done():
            self._loaded.set_exception(load_failure(died(how, "", alone=True)))
        replies, self._replies = self._replies, {}
        begun = self._begun(list(replies))
        for call_id, reply in reversed(replies.items()):
            reply.stop_timer()
            if call_id in begun:
                malformed = self.connection.is_malformed
                reply.died(died(how, reply.name, len(begun) == 1, malformed=malformed))
            else:
                reply.not_begun()

    def _begun(self, calls: list[int]) -> set[int]:
        """Those of the unanswered calls that may have begun."""
        if not self.spec.concurrent:  # it answers one before it begins the next
            return set(calls[:1])
        last = self.connection.area.begun
        # ids count up, and begin again at 1
        return {one for one in calls if last is None or not 0 < (one - last) & 0xFFFFFFFF < 1 << 31}

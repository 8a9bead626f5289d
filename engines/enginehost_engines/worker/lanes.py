"""Which call of a client goes to which worker, and when.

A lane is a worker that the client leased. One that serves a call at a time may be sent further ones while it
runs: it finds them there when it is ready, and neither side waits for the other. That is done only where
calls are so short that they wait no longer for it, and only where no other worker could run them meanwhile.
A worker answers a call before it begins the next: where it ends, only the first that it has not answered can
have begun. The others are sent again, to another.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from time import perf_counter

from enginehost.errors import EngineHostError, EngineUnavailable, ExecutionFailed
from enginehost_engines.worker.group import Group
from enginehost_engines.worker.process import Worker
from enginehost_engines.worker.replies import Reply
from enginehost_engines.worker.wire import CALL, CANCEL

AHEAD_SECONDS = 0.002
"""How much work, by what calls took so far, may be sent to a worker that runs a call."""

_MOST_CALLS = 64
_MOST_BYTES = 16 * 1024
"""A larger call waits here until it can be run."""

_SKIP_SECONDS = 0.05
"""How long a worker may take to say that it skips a call which was cancelled before it came to it."""


class Lane:
    """A leased worker and the calls that were sent to it, in their order."""

    __slots__ = ("_lanes", "_open", "_since", "calls", "worker")

    def __init__(self, worker: Worker, lanes: Lanes) -> None:
        self.worker = worker
        self.calls: deque[Reply] = deque()
        self._lanes = lanes
        self._since = 0.0
        """When the worker came to the first of its calls."""
        self._open = True

    def send(self, reply: Reply) -> None:
        """Send a call. What prevents that is its answer."""
        reply.lane = self
        if not self.calls:
            self._since = perf_counter()
        self.calls.append(reply)
        try:
            reply.call_id = self.worker.send(reply.kind, reply.payload, reply)
        except EngineHostError as error:  # too large
            reply.died(error)

    def over(self, reply: Reply) -> None:
        """A call was answered, or will not be."""
        calls = self.calls
        if calls and calls[0] is reply:
            calls.popleft()
            now = perf_counter()
            if reply.kind == CALL:
                self._lanes.took(now - self._since)
            self._since = now
            if calls and calls[0].left:
                self._skip(calls[0])
        elif reply in calls:
            calls.remove(reply)
        if self._open:
            self._lanes.ended(self)

    def begun(self, reply: Reply) -> bool:
        """Whether the worker may have begun a call (or ended it)."""
        return reply not in self.calls or self.calls[0] is reply

    def leave(self, reply: Reply) -> None:
        """Nobody waits for this call any more."""
        if reply not in self.calls:
            return
        if not self.begun(reply):
            self.worker.say(CANCEL, reply.call_id)
        elif reply.kind == CALL:
            self._lanes.group.abandon(self.worker, reply.call_id)  # before its worker looks free
            self._lanes.close(self)
        else:
            self.worker.abandon(reply.call_id)

    def again(self, reply: Reply) -> None:
        """A call has not begun here: somewhere else, then."""
        self.calls.remove(reply)
        self._lanes.again(reply)

    def close(self) -> bool:
        """Whether it was open: nothing more is sent to it."""
        was, self._open = self._open, False
        return was

    def _skip(self, reply: Reply) -> None:
        """The worker has come to a call that it was told to skip, perhaps too late."""
        loop = asyncio.get_running_loop()
        reply.force_after(loop.call_later(_SKIP_SECONDS, self.leave, reply))


class Lanes:
    """The lanes of one client; at most ``size``, where workers serve one call at a time."""

    __slots__ = ("_free", "_line", "_open", "_opening", "_over", "_pace", "_size", "group")

    def __init__(self, group: Group, size: int) -> None:
        self.group = group
        self._size = size
        self._free = sys.maxsize if group.spec.concurrent else size
        self._open: list[Lane] = []
        self._opening: set[asyncio.Task[Worker]] = set()
        self._line: deque[Reply] = deque()
        self._over = False
        self._pace = AHEAD_SECONDS
        """Seconds of a call, lately."""

    def send(self, reply: Reply) -> None:
        """Send a call as soon as there is a worker for it."""
        if not self._line and (lane := self._lane_for(reply)) is not None:
            lane.send(reply)
        else:
            self._line.append(reply)
            self._want()

    def leave(self, reply: Reply) -> str:
        """Nobody waits for this call any more. What it waited for, where it was not sent yet."""
        if reply.left:
            return ""
        reply.left = True
        if reply.lane is not None:
            begun = reply.lane.begun(reply)
            reply.lane.leave(reply)
            return "" if begun else self._why_waiting()
        if reply not in self._line:
            return ""
        self._line.remove(reply)
        why = self._why_waiting()
        if len(self._opening) > len(self._line):
            next(iter(self._opening)).cancel()
        return why

    def shut(self) -> None:
        """The engine closes: calls that have not begun do not begin any more."""
        self._over = True
        for task in self._opening:
            task.cancel()
        self._refuse(EngineUnavailable("the engine was closed", state="closing"))

    def took(self, seconds: float) -> None:
        """A call took so long."""
        self._pace += (seconds - self._pace) / 4

    def ended(self, lane: Lane) -> None:
        """A lane has room."""
        if self._line:
            self._serve()
        if not lane.calls or not lane.worker.usable:
            self.close(lane)

    def close(self, lane: Lane) -> None:
        """Give a lane's worker back."""
        if lane.close():
            if not self.group.spec.concurrent:
                self._open.remove(lane)
            self._free += 1
            self.group.release(lane.worker)
            if self._line:
                self._serve()

    def again(self, reply: Reply) -> None:
        """Send a call once more, before all others."""
        reply.lane = None
        if self._over:
            reply.died(_refusal(reply.name, EngineUnavailable("the engine was closed", state="closing")))
        elif not reply.left:
            self._line.appendleft(reply)
            self._want()

    def _serve(self) -> None:
        line = self._line
        while line and (lane := self._lane_for(line[0])) is not None:
            lane.send(line.popleft())
        self._want()

    def _lane_for(self, reply: Reply) -> Lane | None:
        if self._open and self._size == 1:
            lane = self._open[0]
            if lane.worker.usable and (not lane.calls or self._fits(reply, lane)):
                return lane
        if self._free and (worker := self.group.take()) is not None:
            self._free -= 1
            return self._opened(worker)
        return None

    def _fits(self, reply: Reply, lane: Lane) -> bool:
        """Whether a call may be sent to a worker that runs others."""
        return (
            reply.kind == CALL
            and lane.calls[0].kind == CALL
            and len(lane.calls) < min(_MOST_CALLS, AHEAD_SECONDS / self._pace)
            and len(reply.payload) <= _MOST_BYTES
            and not self.group.wanted_elsewhere
        )

    def _opened(self, worker: Worker) -> Lane:
        lane = Lane(worker, self)
        if not self.group.spec.concurrent:
            self._open.append(lane)
        return lane

    def _want(self) -> None:
        """Ask for the workers that are missing."""
        most = 1 if self.group.spec.concurrent else self._free + len(self._opening)
        while len(self._opening) < min(len(self._line), most):
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self.group.lease(), name="enginehost-worker-lease")
            self._opening.add(task)
            task.add_done_callback(self._leased)

    def _leased(self, task: asyncio.Task[Worker]) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._free += 1
            if error is None:
                self._want()
            else:
                self._refuse(error)
            return
        lane = self._opened(task.result())
        if self._line:
            lane.send(self._line.popleft())
            self._serve()
        self.ended(lane)

    def _refuse(self, error: BaseException) -> None:
        """Answer all that wait."""
        line, self._line = self._line, deque()
        for reply in line:
            reply.died(_refusal(reply.name, error))

    def _why_waiting(self) -> str:
        if self._opening:
            return self.group.why_waiting()
        return f"it waited for the engine's other calls (PYTHON_WORKERS = {self._size})"


def _refusal(name: str, error: BaseException) -> Exception:
    if not isinstance(error, EngineUnavailable):
        return error if isinstance(error, Exception) else ExecutionFailed(f"{name}: {error}")
    detail = error.detail
    reason, state = str(detail.get("reason", "")), str(detail.get("state", ""))
    refusal = EngineUnavailable(f"{name}: {error.message}", state=state, reason=reason)
    refusal.__cause__ = error
    return refusal

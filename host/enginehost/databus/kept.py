"""Final replies that were sent, for a while: one that got lost is sent again to whoever asks for it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from enginehost.databus.port import ExecutionReply
from enginehost.databus.replies import ReturnAddress
from enginehost.databus.running import Known

MOST = 4_096
MOST_BYTES = 8 << 20
MOST_TIMES = 8
"""How often one is sent again: a small question must not cause many large answers."""


@dataclass(slots=True)
class _Kept:
    reply: ExecutionReply
    to: ReturnAddress
    times: int = 0


class Kept:
    """The latest final replies to hosts and clients of our kind."""

    def __init__(self) -> None:
        self._replies: OrderedDict[Known, _Kept] = OrderedDict()
        self._bytes = 0

    def add(self, known: Known, reply: ExecutionReply, to: ReturnAddress) -> None:
        """Keep one that has just been sent."""
        size = len(reply.result)
        if size > MOST_BYTES // 4:
            return
        earlier = self._replies.pop(known, None)  # of an id that came again long after
        if earlier is not None:
            self._bytes -= len(earlier.reply.result)
        self._replies[known] = _Kept(reply, to)
        self._bytes += size
        while len(self._replies) > MOST or self._bytes > MOST_BYTES:
            _, oldest = self._replies.popitem(last=False)
            self._bytes -= len(oldest.reply.result)

    def again(self, known: Known) -> tuple[ExecutionReply, ReturnAddress] | None:
        """The reply, if it is kept and has not been sent again too often."""
        kept = self._replies.get(known)
        if kept is None or kept.times >= MOST_TIMES:
            return None
        kept.times += 1
        return kept.reply, kept.to

"""Stages that bound what an agent uses."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Literal

from enginehost.agents.contract import Stage, Turn
from enginehost.llm.message import Message, Type

Each = Literal["agent", "owner", "session"]
_MOST_KEPT = 10_000
"""Owners or sessions that are remembered at once."""


def rate_limit(times: int, seconds: float = 60.0, *, each: Each = "agent", wait: bool = True) -> Stage:
    """Ask the model ``times`` times in any ``seconds``, for the agent, each owner, or each session.

    The next question waits for its time, or, without ``wait``, ends the turn with a notice. It counts in
    this process.
    """
    if times < 1 or seconds <= 0:
        raise ValueError("times and seconds have to be more than 0")
    asked: dict[object, deque[float]] = {}

    def room(turn: Turn) -> float:
        """Seconds until there is room; where there is, the place is taken."""
        now = time.monotonic()
        known = asked.setdefault(_key(turn, each), deque())
        while known and known[0] <= now - seconds:
            known.popleft()
        if len(known) >= times:
            return known[0] + seconds - now
        known.append(now)
        if len(asked) > _MOST_KEPT:
            for key in [key for key, one in asked.items() if not one or one[-1] <= now - seconds]:
                del asked[key]
        return 0.0

    async def stage(messages: AsyncIterator[Message], turn: Turn) -> AsyncIterator[Message]:
        while left := room(turn):
            if not wait:
                turn.stop(f"the model may be asked {times} times in {seconds:g} s, and has been")
                return
            await asyncio.sleep(left)
        async for message in messages:
            yield message

    return stage


def _key(turn: Turn, each: Each) -> object:
    if each == "session":
        return turn.session.id
    return turn.session.owner if each == "owner" else None


def budget(tokens: int | None = None, cost: float | None = None) -> Stage:
    """End a turn that has used so many tokens (in and out), or cost so many US dollars.

    It is looked at after each answer: one that calls no further tool is given, and the calls of one that
    does are not made. Where prices are not known, a cost is 0.
    """
    if tokens is None and cost is None:
        raise ValueError("give tokens, cost, or both")

    def over(used: int, spent: float) -> str:
        if tokens is not None and used >= tokens:
            return f"the turn has used {used} tokens of {tokens}"
        if cost is not None and spent >= cost:
            return f"the turn has cost ${spent:.4f} of ${cost:g}"
        return ""

    async def stage(messages: AsyncIterator[Message], turn: Turn) -> AsyncIterator[Message]:
        used, spent, calls = turn.tokens, turn.usage.cost or 0.0, False
        if reason := over(used, spent):  # what an earlier process used
            turn.stop(reason)
            return
        async for message in messages:
            if message.usage is not None:
                used, spent = used + message.usage.total, spent + (message.usage.cost or 0.0)
            calls = calls or message.type is Type.TOOL_CALL
            yield message
        if calls and (reason := over(used, spent)):
            turn.stop(reason)

    return stage

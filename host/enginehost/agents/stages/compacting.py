"""The stage that has a long conversation summed up before its model can take it no more."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import orjson

from enginehost.agents.contract import Session, Stage, Turn
from enginehost.agents.ledger import added
from enginehost.agents.skills import SKILL_TOOL, skill_blocks, without_skill_blocks
from enginehost.agents.stages.naming import naming
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Type, Usage, system, user

CHARACTERS = 4
"""Of a token, roughly."""

_ASKED = (
    "You sum up the beginning of a conversation between a user and an assistant, for the assistant to go on"
    " with. Keep what was asked for and is not done yet, decisions, names, numbers, and what tools found."
    " Leave out what no longer matters. Write nothing but the summary."
)
_log = logging.getLogger("enginehost.agents")


def compaction(window: int = 100_000, *, at: float = 0.8, keep: int = 20, model: str = "") -> Stage:
    """Once the context has ``at`` of ``window`` tokens, have a model sum up all but the last ``keep`` rows.

    The summary is a row that stands for them when the context is loaded; nothing is deleted. ``model`` is a
    model engine, by default the agent's own. What it is asked is bounded by the window too: it sums up
    piece by piece. The texts of skills are not summed up but stay as they are. Where the model fails, the
    turn goes on as it is. Tokens are counted by characters, four to a token.
    """
    if window < 200 or not 0 < at <= 1 or keep < 1:
        raise ValueError("window has to be 200 or more, at between 0 and 1, and keep 1 or more")

    async def stage(messages: AsyncIterator[Message], turn: Turn) -> AsyncIterator[Message]:
        usage = await _compacted(turn.session, window * CHARACTERS, at, keep, model)
        async for message in messages:
            yield message
        if usage is not None:
            yield Message(Role.ASSISTANT, usage=usage)

    return naming(stage, model=model)


async def _compacted(session: Session, size: int, at: float, keep: int, model: str) -> Usage | None:
    """Sum up what is too much; the tokens that this took."""
    upto = await _too_much(session, int(size * at), keep)
    if not upto:
        return None
    summing = _Summing(session, model, size)
    try:
        await summing.read(upto)
    except EngineHostError as error:
        _log.warning("session %s could not be summed up: %s", session.id, error.message)
        return summing.usage
    await session.write(Message(Role.SYSTEM, Type.COMPACTION, summing.text(), query={"upto": upto}))
    return summing.usage


async def _too_much(session: Session, most: int, keep: int) -> int:
    """The row up to which to sum up, so that ``keep`` rows stay and no call is parted from its result.

    0 where the context has less than ``most`` characters, or there is nothing to sum up.
    """
    size = number = 0
    open_calls: set[str] = set()
    ends: deque[tuple[int, int]] = deque()
    async with aclosing(session.rows()) as rows:
        async for row in rows:
            size += _size(row)
            if not row.whole or row.role is Role.SYSTEM:
                continue
            number += 1
            if row.type is Type.TOOL_CALL:
                open_calls.add(row.call_id)
            elif row.type is Type.TOOL_RESULT:
                open_calls.discard(row.call_id)
            if not open_calls and row.type is not Type.REASONING:  # which belongs to what follows it
                ends.append((number, row.sequence))
            while len(ends) > 1 and ends[1][0] <= number - keep:
                ends.popleft()
    return ends[0][1] if size >= most and ends and ends[0][0] <= number - keep else 0


def _size(row: Message) -> int:
    args = row.query.get("args") if row.query else None
    return len(row.content) + (len(str(args)) if args else 0)


@dataclass
class _Summing:
    """A summary that grows, never asking a model for more than half the window at once."""

    session: Session
    model: str
    size: int
    summary: str = ""
    usage: Usage | None = None
    skills: dict[str, str] = field(default_factory=dict[str, str])
    last_said: str = ""
    _chunk: list[str] = field(default_factory=list[str])
    _length: int = 0
    _skill: list[str] = field(default_factory=list[str])

    async def read(self, upto: int) -> None:
        """All rows up to this one."""
        async with aclosing(self.session.rows()) as rows:
            async for row in rows:
                if row.type is Type.COMPACTION:
                    self.skills |= skill_blocks(row.content)
                    self.summary = without_skill_blocks(row.content)[: self.size // 4]
                elif row.sequence <= upto and row.role is not Role.SYSTEM:
                    await self._take(row)
        await self._sum_up()

    def text(self) -> str:
        """The content of the row."""
        said = f"\n\nThe user said last:\n{self.last_said}" if self.last_said else ""
        return "\n\n".join(
            [f"Summary of the conversation so far:\n{self.summary}{said}", *self.skills.values()]
        )

    async def _take(self, row: Message) -> None:
        if row.type is Type.TOOL_RESULT and (row.query or {}).get("tool") == SKILL_TOOL:
            self._take_skill(row)
            return
        if row.role is Role.USER and row.type is Type.TEXT and row.content:
            self.last_said = row.content[: self.size // 8]
        line = _line(row)[: self.size // 8]
        if self._length + len(line) > self.size // 4:
            await self._sum_up()
        self._chunk.append(line)
        self._length += len(line)

    def _take_skill(self, row: Message) -> None:
        self._skill.append(row.content)
        if row.whole:
            text = "".join(self._skill)
            self._skill.clear()
            self.skills |= skill_blocks(_text_of(text))

    async def _sum_up(self) -> None:
        if not self._chunk:
            return
        said = "\n".join(filter(None, self._chunk))
        self._chunk, self._length = [], 0
        before = f"The summary until now:\n{self.summary}\n\n" if self.summary else ""
        rows = [system(_ASKED), user(f"{before}What was said then:\n{said}")]
        answer: Any = await self.session.llm(self.model).send(rows)
        self.summary = str(answer.text).strip()[: self.size // 4]
        self.usage = answer.usage if self.usage is None else added(self.usage, answer.usage)


def _text_of(content: str) -> str:
    try:
        return str(orjson.loads(content))
    except orjson.JSONDecodeError:
        return content


def _line(row: Message) -> str:
    """A row as the one who sums up reads it."""
    query = row.query or {}
    match row.type:
        case Type.TOOL_CALL:
            args = orjson.dumps(query.get("args"), default=str).decode()
            return f"assistant calls {query.get('tool')}({args})"
        case Type.TOOL_RESULT:
            return f"{query.get('tool')} answers: {row.content}"
        case Type.REASONING:
            return ""
        case Type.IMAGE | Type.FILE:
            return f"{row.role} gives a {row.type} {query.get('name', '')}"
        case _:
            return f"{row.role}: {row.content}"

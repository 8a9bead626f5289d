"""The stage that takes out what patterns find, also where it comes in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from enginehost.agents.contract import Stage, Turn
from enginehost.agents.patterns import Patterns, Search
from enginehost.llm.message import Message, Type

_BEHIND = 64
"""Characters before what is looked at, for a pattern that looks behind (``\\b``)."""
_LOOKED_AT = 4096
"""Characters that are looked through at once (or four times the longest match): some patterns take the square
of a text's length."""


def redact(patterns: Sequence[str], *, instead: str = "[redacted]", longest: int = 256) -> Stage:
    r"""Put ``instead`` where one of the ``patterns`` (regular expressions) is found.

    Of what comes in pieces the last ``longest`` characters are held back, so that a match that is cut in two
    is found: none may be longer. The arguments of calls stay as they are, since a tool would get others than
    the model means. It works in ``AgentSpec.context_stages`` too: there, on what the model is shown.
    """
    if not patterns or longest < 1:
        raise ValueError("give at least one pattern, and a longest match of 1 character or more")
    found = Patterns(patterns, "a pattern of the stage redact")

    async def stage(messages: AsyncIterator[Message], turn: Turn) -> AsyncIterator[Message]:
        passing = _Passing(found.search(), instead, longest)
        held: Message | None = None
        async for message in messages:
            if held is not None and message.id != held.id:
                yield replace(held, content=await passing.end())  # which nobody closed
                held = None
            if message.type is Type.TOOL_CALL:
                yield message
            elif message.whole:
                content = await passing.put(message.content)
                yield replace(message, content=content + await passing.end())
                held = None
            else:
                held = message
                if content := await passing.put(message.content):
                    yield replace(message, content=content)
        if held is not None:
            yield replace(held, content=await passing.end())

    return stage


class _Passing:
    """A text that comes in pieces."""

    def __init__(self, search: Search, instead: str, longest: int) -> None:
        self._search, self._instead, self._longest = search, instead, longest
        self._text = ""
        self._from = 0
        """Up to where it has been given on; what is before stays for patterns that look behind."""

    async def put(self, piece: str) -> str:
        """As much as can be given on."""
        size = max(_LOOKED_AT, 4 * self._longest)
        parts: list[str] = []
        for at in range(0, len(piece), size):
            if at:
                await asyncio.sleep(0)  # a long text lets others have their turn
            self._text += piece[at : at + size]
            parts.append(await self._given(len(self._text) - self._longest))
        return "".join(parts)

    async def end(self) -> str:
        """The rest."""
        rest = await self._given(len(self._text))
        self._text, self._from = "", 0
        return rest

    async def _given(self, upto: int) -> str:
        if upto <= self._from:
            return ""
        parts: list[str] = []
        at = self._from
        for match in await self._search.all_in(self._text, self._from):
            if match.start() >= upto:
                break
            if match.end() > upto:
                upto = match.start()  # it may go on
                break
            if match.end() > match.start():
                parts += [self._text[at : match.start()], self._instead]
                at = match.end()
        parts.append(self._text[at:upto])
        keep = max(0, upto - _BEHIND)
        self._text, self._from = self._text[keep:], upto - keep
        return "".join(parts)

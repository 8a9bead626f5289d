"""Stages that change what passes message by message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from enginehost.agents.contract import Stage, Turn
from enginehost.agents.stages.naming import naming
from enginehost.llm.message import Message, Type


def hide_reasoning() -> Stage:
    """Keep what a model thinks out of the store, and so from everybody.

    What its provider needs back (a signature, sealed reasoning) stays, without the text.
    """

    async def stage(messages: AsyncIterator[Message], turn: Turn) -> AsyncIterator[Message]:
        async for message in messages:
            if message.type is not Type.REASONING:
                yield message
            elif message.whole and message.provider:
                yield replace(message, content="")
            elif message.whole and message.usage is not None:
                yield replace(message, type=Type.TEXT, content="", query=None)

    return stage


def approval(tools: Sequence[str]) -> Stage:
    """Have a person decide on calls of these tools: names, or patterns such as ``delete_*``."""
    if not tools:
        raise ValueError("tools has to name at least one")

    async def stage(messages: AsyncIterator[Message], turn: Turn) -> AsyncIterator[Message]:
        async for message in messages:
            if message.type is Type.TOOL_CALL and _is_one_of(tools, message):
                message = replace(message, query={**(message.query or {}), "ask": True})  # noqa: PLW2901
            yield message

    return naming(stage, tools=tuple(one for one in tools if not is_pattern(one)))


def is_pattern(name: str) -> bool:
    """Whether a name of tools stands for several."""
    return any(mark in name for mark in "*?[")


def _is_one_of(tools: Sequence[str], call: Message) -> bool:
    name = str((call.query or {}).get("tool", ""))
    return any(fnmatchcase(name, pattern) for pattern in tools)

"""What a model answered, whole."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import replace
from typing import Any

import orjson

from enginehost.errors import ResultInvalid
from enginehost.llm.message import Message, Type, Usage


class Answer(list[Message]):
    """The messages of one answer. ``model`` asked with a schema: :attr:`data` is what it gave."""

    data: Any = None
    """The structured answer: JSON, or an instance of the class that was given as the schema."""

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(message.content for message in self if message.type is Type.TEXT)

    @property
    def reasoning(self) -> str:
        """What it thought, as far as the provider tells."""
        return "".join(message.content for message in self if message.type is Type.REASONING)

    @property
    def tool_calls(self) -> list[Message]:
        """The functions it wants called: ``query`` has ``tool``, ``id`` and ``args``."""
        return [message for message in self if message.type is Type.TOOL_CALL]

    @property
    def usage(self) -> Usage:
        """The tokens it took."""
        return next((message.usage for message in reversed(self) if message.usage), Usage())


async def gathered(pieces: AsyncIterable[Message]) -> Answer:
    """The whole messages of an answer, in the order in which they began."""
    texts: dict[str, list[str]] = {}
    whole: dict[str, Message | None] = {}
    async for message in pieces:
        texts.setdefault(message.id, []).append(message.content)
        whole[message.id] = message if message.whole else None
    return Answer(
        replace(message, content="".join(texts[one]) if len(texts[one]) > 1 else message.content)
        for one, message in whole.items()
        if message is not None
    )


def structured(answer: Answer) -> Any:
    """The JSON value of an answer's ``data``. Raises :class:`ResultInvalid` where it has none."""
    for message in answer:
        if message.type is Type.DATA:
            return orjson.loads(message.content)
    said = answer.text[:300]
    raise ResultInvalid(f"the model gave no structured answer{': ' + said if said else ''}")

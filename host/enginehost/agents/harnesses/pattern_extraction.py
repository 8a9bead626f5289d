"""Facts that patterns find in what users say, for the model to rely on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing

import orjson

from enginehost.agents.contract import Session
from enginehost.agents.harnesses.beside import Beside
from enginehost.agents.patterns import Patterns
from enginehost.llm.message import Message, Role, Type, user


class PatternExtraction(Beside):
    """Shows what ``patterns`` (regular expressions by the name of the fact) found in the user's messages.

    The fact is the first group, or the whole match; where it is said again, the last one counts.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        super().__init__()
        self._patterns = {
            name: Patterns((pattern,), f"the pattern of {name}") for name, pattern in patterns.items()
        }

    async def found(self, session: Session, said: Message) -> Sequence[Message]:
        """One message with the facts as JSON; none where there are none."""
        facts: dict[str, str] = {}
        async with aclosing(session.rows()) as rows:
            async for row in rows:
                if row.role is Role.USER and row.type is Type.TEXT and row.sequence <= said.sequence:
                    facts |= await self.facts(row.content)
        if not facts:
            return ()
        return (user(f"Facts from this conversation: {orjson.dumps(facts).decode()}"),)

    async def facts(self, text: str) -> dict[str, str]:
        """What the patterns find in one text. Raises ``ExecutionFailed`` where one takes too long."""
        facts: dict[str, str] = {}
        for name, pattern in self._patterns.items():
            for match in await pattern.search().all_in(text):
                facts[name] = match[1] if pattern.groups and match[1] is not None else match[0]
        return facts

"""Which of many tools a model is shown: those in use, and those that fit what the user says.

Within a turn the list changes only where the conversation does, and it is always in the order of what is
offered, so that a provider's prompt cache hits. What is not shown may be called all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from enginehost.agents.contract import Tool, Turn
from enginehost.agents.ledger import Ledger
from enginehost.agents.rows import tool_of
from enginehost.llm.message import Message, Role, Type
from enginehost.narrowing import chosen
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.agents.port import AgentHost

_PAGES, _PAGE = 10, 20
"""Rows that are looked back at, for what was called and said, a page at a time: a row may have a megabyte."""
_SAID = 3
"""Last messages of the user that count, the last one first: "yes, do that" says little."""
_LONGEST = 4_000
"""Characters of a message that count, the last ones."""


class Narrower:
    """Narrows the tools of one turn."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._read_upto = 0
        self._called: dict[str, None] = {}
        self._said: list[str] = []
        self._ranked: tuple[object, list[list[str]]] = (None, [])

    async def shown(self, turn: Turn, ledger: Ledger) -> Sequence[Tool] | None:
        """The tools to show, in the order of those offered; ``None`` where that is all of them."""
        offered, most = turn.offered, turn.spec.tools_most
        if not most or len(offered) <= most:
            return None
        await self._look_back(turn, ledger.last_user)
        named = {*turn.spec.agents, *(one.signature.name for one in turn.spec.functions)}
        for state in ledger.calls.values():
            self._called[state.tool] = None
        keep = [name for name, tool in offered.items() if tool.own or name in named or name in self._called]
        names = chosen(list(offered), most, keep, await self._rankings(turn))
        return [offered[name] for name in names]

    async def _look_back(self, turn: Turn, last_user: int) -> None:
        """Read the end of the conversation, once for each message of the user."""
        if self._read_upto == last_user:
            return
        self._read_upto = last_user
        before, said = last_user + 1, list[str]()
        for _ in range(_PAGES):
            rows = await turn.session.history(before=before, limit=_PAGE)
            self._called |= dict.fromkeys(tool_of(row) for row in rows if row.type is Type.TOOL_CALL)
            said += [row.content[-_LONGEST:] for row in reversed(rows) if _is_said(row)]
            if len(rows) < _PAGE:
                break
            before = rows[0].sequence
        self._said = said[:_SAID]

    async def _rankings(self, turn: Turn) -> list[list[str]]:
        """What fits each of the last messages; asked once while neither they nor the tools change."""
        offered = turn.offered
        key = (tuple(self._said), tuple(offered))
        if self._ranked[0] != key:
            tools = _signatures(offered)
            classifier, narrowing = turn.spec.tools_classifier, self._host.narrowing
            rankings: list[list[str]] = []
            for place, text in enumerate(self._said):
                chooses = classifier if place == 0 else "bm25"
                ranked = await narrowing.rank(text, tools.get, tools.values, turn.spec.tools_most, chooses)
                rankings.append(ranked)
            self._ranked = key, rankings
        return self._ranked[1]


def _signatures(offered: Mapping[str, Tool]) -> dict[str, FunctionSignature]:
    return {name: tool.function.signature for name, tool in offered.items()}


def _is_said(row: Message) -> bool:
    return row.role is Role.USER and row.type is Type.TEXT and bool(row.content.strip())

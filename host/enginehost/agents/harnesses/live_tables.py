"""Tables that the model always sees as they are now: queries stand in the context for their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from enginehost.agents.contract import Session
from enginehost.agents.harnesses.beside import Beside
from enginehost.llm.message import Message, Role, Type


class LiveTables(Beside):
    """Shows the results of calls: ``tables`` has the name of a function and its arguments for each.

    They are lazy results: the functions have to be among the agent's tools and read-only, are called with the
    rights of whoever talks to the agent, and anew at each question to the model. Nothing of them is stored.
    """

    def __init__(self, tables: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        super().__init__()
        self._tables = dict(tables)

    async def found(self, session: Session, said: Message) -> Sequence[Message]:
        """A call and a result of each table, in the order in which they were given."""
        rows: list[Message] = []
        for name, (tool, args) in self._tables.items():
            query = {"tool": tool, "id": f"live-{name}", "args": dict(args)}
            lazy = {"tool": tool, "id": f"live-{name}", "lazy": {"tool": tool, "args": dict(args)}}
            rows.append(Message(Role.ASSISTANT, Type.TOOL_CALL, query=query))
            rows.append(Message(Role.TOOL, Type.TOOL_RESULT, query=lazy))
        return rows

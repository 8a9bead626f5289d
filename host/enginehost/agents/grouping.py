"""Many functions as three tools: ``describe`` tells of them, ``query`` and ``action`` call one.

A model chooses badly among hundreds of tools, each costs tokens in every request, and providers take 128 at
most. So where a turn offers more functions of the catalog than ``AgentSpec.group_tools_above``, the model is
shown these three in their place (or beside those that fit, ``tools_most``), and finds the others by words
or in a list. What differs is only what it
sees: a call that it makes through ``query`` or ``action`` is stored, decided on by people, counted and run as
a call of the function itself, and is shown to it again as a call through its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from enginehost.agents.contract import Tool, Turn
from enginehost.agents.offers import find, not_offered
from enginehost.call import Call
from enginehost.engine import Annotations, Function, RunMode
from enginehost.errors import InvalidArguments
from enginehost.llm.message import Message, Type
from enginehost.llm.passage import Batches, Context, Passage
from enginehost.narrowing.document import document_of
from enginehost.narrowing.index import Index
from enginehost.signature import FunctionSignature

DESCRIBE, QUERY, ACTION = "describe", "query", "action"
_FOUND = 10
"""Functions that a search gives."""
_NAMED = 20
"""Functions that can be asked for by name at once."""
_PAGE = 100
"""Functions on a page of the list."""
_LONGEST_LINE = 160

_DESCRIBED = {
    "type": "object",
    "properties": {
        "search": {
            "type": "string",
            "minLength": 1,
            "description": "What is to be done, in a few words: gives the functions that fit best.",
        },
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": _NAMED,
            "description": "Names of functions: gives these.",
        },
        "page": {
            "type": "integer",
            "minimum": 1,
            "description": "A page of the list of all, where neither search nor names is given.",
        },
    },
}
_CALLED = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the function."},
        "arguments": {"type": "object", "description": "What it is called with, by its parameters."},
    },
    "required": ["name"],
}


@dataclass(frozen=True)
class Groups:
    """The functions that are shown as groups, by name, and by which names the groups are known here."""

    tools: Mapping[str, Tool]
    describe: str
    query: str
    action: str

    def group_of(self, name: str) -> str:
        """The group through which a function is called; empty for one that is shown by itself."""
        tool = self.tools.get(name)
        return "" if tool is None else self.query if _reads(tool) else self.action

    def find(self, name: object) -> Tool | None:
        """The function that a model means."""
        return find(self.tools, name) if isinstance(name, str) else None

    def own_tools(self) -> Iterable[Tool]:
        """The groups as tools; one for which there is no function is left out."""
        count = len(self.tools)
        reading = sum(map(_reads, self.tools.values()))
        yield _tool(
            self.describe,
            f"Find functions: {count} can be called here. Give search or names for their descriptions and"
            " parameters; without either it lists them.",
            _DESCRIBED,
            self._describe,
        )
        if reading:
            text = f"Call a function that only reads, of those that `{self.describe}` finds."
            yield _tool(self.query, text, _CALLED, self._explain)
        if reading < count:
            text = f"Call a function that does something, of those that `{self.describe}` finds."
            yield _tool(self.action, text, _CALLED, self._explain)

    @cached_property
    def _index(self) -> Index:
        index = Index()
        for name, tool in self.tools.items():
            index.put(name, document_of(tool.function.signature))
        return index

    def _describe(self, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        if "search" in arguments:
            best = self._index.rank(arguments["search"])[:_FOUND]
            return {"functions": [self._whole(name) for name, _ in best]}
        if "names" in arguments:
            return {"functions": [self._named(name) for name in arguments["names"]]}
        page, names = arguments.get("page", 1), sorted(self.tools)
        listed = names[(page - 1) * _PAGE : page * _PAGE]
        return {
            "functions": [self._line(name) for name in listed],
            "page": page,
            "pages": -(-len(names) // _PAGE),
        }

    def _named(self, name: str) -> dict[str, Any]:
        tool = self.find(name)
        if tool is None:
            return {"name": name, "error": not_offered(self.tools, name).message}
        return self._whole(tool.name)

    def _whole(self, name: str) -> dict[str, Any]:
        signature = self.tools[name].function.signature
        told = {"name": name, "call_with": self.group_of(name), "description": signature.description}
        return told | {"parameters": signature.parameters}

    def _line(self, name: str) -> dict[str, Any]:
        first = self.tools[name].function.signature.description.partition("\n")[0]
        return {"name": name, "description": first[:_LONGEST_LINE]}

    def _explain(self, arguments: dict[str, Any], call: Call) -> None:
        """What is wrong with a call through a group that :func:`as_own` could make none of a function."""
        name = arguments["name"]
        tool = self.find(name)
        if tool is None:
            raise not_offered(self.tools, name)
        raise InvalidArguments(f"{tool.name} does not only read: call it with {self.group_of(tool.name)}")


def groups_of(offered: Mapping[str, Tool], above: int) -> Groups | None:
    """The groups of what a turn offers; ``None`` where no more than ``above`` are of the catalog."""
    tools = {name: tool for name, tool in offered.items() if not (tool.own or tool.agent)}
    if len(tools) <= above or not tools:
        return None
    return Groups(tools, *(_free(name, offered) for name in (DESCRIBE, QUERY, ACTION)))


def shown(turn: Turn) -> list[FunctionSignature]:
    """The tools that the model is told of: those that were chosen, else all that are in no group."""
    if turn.shown is not None:
        return [tool.function.signature for tool in turn.shown]
    hidden: Mapping[str, Tool] = turn.groups.tools if turn.groups is not None else {}
    return [tool.function.signature for name, tool in turn.offered.items() if name not in hidden]


def as_own(groups: Groups | None, message: Message) -> Message:
    """What the model says, with a call through a group as one of the function itself.

    A call that means no function, or one that does not belong to the group, stays as it is: running it
    tells the model so. A function that only reads may be called as one that acts.
    """
    query = message.query
    if groups is None or message.type is not Type.TOOL_CALL or query is None:
        return message
    args = query.get("args")
    if query.get("tool") not in (groups.query, groups.action) or not isinstance(args, Mapping):
        return message
    tool = groups.find(args.get("name"))
    if tool is None or (query["tool"] == groups.query and not _reads(tool)):
        return message
    return replace(message, query={**query, "tool": tool.name, "args": args.get("arguments", {})})


def as_shown(turn: Turn, rows: Context) -> Context:
    """The rows of a context, with calls of functions in groups as calls through these.

    Where tools were chosen, those that the conversation has called are among them and stand as they are.
    """
    groups = turn.groups
    if groups is None or turn.shown is not None:
        return rows
    return Context(lambda form: _through_groups(groups, rows.batches(form)))


async def _through_groups(groups: Groups, batches: Batches) -> Batches:
    async with aclosing(batches):
        async for batch in batches:
            # passages hold plain texts alone
            yield batch if isinstance(batch, Passage) else [_through_group(groups, row) for row in batch]


def _through_group(groups: Groups, row: Message) -> Message:
    if row.type not in (Type.TOOL_CALL, Type.TOOL_RESULT):
        return row
    query = row.query or {}
    group = groups.group_of(str(query.get("tool", "")))
    if not group:
        return row
    shown_as = {**query, "tool": group}
    if row.type is Type.TOOL_CALL:
        shown_as["args"] = {"name": query["tool"], "arguments": query.get("args")}
    return replace(row, query=shown_as)


def _reads(tool: Tool) -> bool:
    return tool.function.signature.annotations.read_only is True


def _free(name: str, offered: Mapping[str, Tool]) -> str:
    """A name for a group that no function has."""
    while name in offered:
        name = f"catalog_{name}"
    return name


def _tool(name: str, text: str, parameters: Mapping[str, Any], run: Callable[..., Any]) -> Tool:
    # what runs under these names only tells: calls of functions never do, see `as_own`
    hints = Annotations(read_only=True, idempotent=True)
    return Tool(
        Function(FunctionSignature(name, text, parameters, annotations=hints), run, RunMode.SYNC), own=True
    )

"""Which tools a turn offers, by which names the model knows them, and whether a call is one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from enginehost.agents.contract import AgentSpec, Tool, ToolSelection
from enginehost.agents.facts import AGENT_PARAMETERS
from enginehost.caller import LOCAL, Caller
from enginehost.catalog import OTHERS, Entry
from enginehost.engine import Annotations, Approval, Function
from enginehost.errors import EngineHostError, InvalidArguments, UnknownFunction
from enginehost.names import FaceNames
from enginehost.near_names import NearNames
from enginehost.policy import CALL
from enginehost.signature import FunctionSignature
from enginehost.validation import Validator, check_arguments, closed

if TYPE_CHECKING:
    from enginehost.agents.port import AgentHost

FACE = "openai"
"""The kind of names that a model is shown: the strictest, so that any provider takes them."""


def agent_signature(spec: AgentSpec) -> FunctionSignature:
    """An agent as a function."""
    hints = Annotations(open_world=True)
    return FunctionSignature(spec.name, spec.description, AGENT_PARAMETERS, annotations=hints)


def selected(host: AgentHost, caller: Caller, selection: ToolSelection) -> list[Tool]:
    """The functions of the catalog that ``selection`` means and ``caller`` may call, by name."""
    if selection.every:
        entries = host.functions(caller)
    else:
        tags, names = frozenset(selection.tags), frozenset(selection.names)
        named = {entry.name for name in names if (entry := host.catalog.get(name)) is not None}
        entries = [
            entry
            for entry in host.functions(caller)
            if entry.name in named or not tags.isdisjoint(entry.signature.tags)
        ]
    short = host.catalog.short_names()
    return [_tool(entry, short) for entry in entries if may_call(host, caller, entry.signature)]


def of_another_host(host: AgentHost, caller: Caller, name: str) -> Tool | None:
    """The agent of another host on the databus that ``name`` means, where the caller may ask it."""
    entry = host.catalog.get(name)
    if entry is None or not is_remote_agent(entry) or not may_call(host, caller, entry.signature):
        return None
    return _tool(entry, host.catalog.short_names())


def is_agent_of_another_host(host: AgentHost, tool: Tool) -> bool:
    """Whether a tool is an agent that answers elsewhere."""
    entry = host.catalog.get(tool.name) if tool.remote else None
    return entry is not None and is_remote_agent(entry)


def is_remote_agent(entry: Entry) -> bool:
    """Whether a function is an agent of another host: it takes a message."""
    return entry.record.kind == OTHERS and "message" in entry.signature.properties


def _tool(entry: Entry, short: Mapping[str, str]) -> Tool:
    """A function as a model sees it: one of another host by its short name, which stays with it."""
    function, shown = entry.function, short.get(entry.name)
    if shown is not None:
        function = replace(function, signature=replace(function.signature, name=shown))
    return Tool(function, remote=entry.record.kind == OTHERS)


def may_call(host: AgentHost, caller: Caller, signature: FunctionSignature) -> bool:
    """Whether the policy lets the caller call it."""
    return caller is LOCAL or host.policy.rights(caller, signature) & CALL != 0


def by_name(tools: Iterable[Tool], spec: AgentSpec) -> dict[str, Tool]:
    """What a turn offers, by name. The agent's own functions come first, and hide others of their name.

    The agent's own name is not among them: an agent does not call itself.
    """
    offered = {one.signature.name: Tool(one, own=True) for one in spec.functions}
    for tool in tools:
        if tool.name != spec.name:
            offered.setdefault(tool.name, tool)
    return offered


def find(offered: Mapping[str, Tool], name: str) -> Tool | None:
    """The offered tool that a model means by ``name``: its own name, or the one that it was shown."""
    tool = offered.get(name)
    if tool is None and offered:
        own = FaceNames(offered, FACE).from_face(name)
        tool = offered.get(own) if own is not None else None
    return tool


def not_offered(offered: Mapping[str, Tool], name: str) -> EngineHostError:
    """Why a call is refused whose tool this turn does not offer."""
    near = NearNames(offered).near(name, lambda _: True)
    error = UnknownFunction(name, nearest=near)
    error.message = f"no tool named {error.detail['name']!r} is offered here"
    if near:
        error.message += f"; did you mean {', '.join(near)}?"
    return error


def check(tool: Tool, args: object) -> dict[str, Any]:
    """Arguments that fit the tool's signature. Raises ``InvalidArguments``."""
    if not isinstance(args, dict):
        raise InvalidArguments(f"{tool.name}: the arguments must be an object, not {type(args).__name__}")
    check_arguments(tool.name, Validator(closed(tool.function.signature.parameters)), args)
    return args


def is_repeatable(function: Function) -> bool:
    """Whether a call may run again although it may have run already."""
    hints = function.signature.annotations
    return hints.read_only is True or hints.idempotent is True


def needs_person(tool: Tool, spec: AgentSpec) -> bool:
    """Whether a person decides on calls of this tool, by the function, its annotations, or the agent."""
    hints, asks = tool.function.signature.annotations, tool.function.approval
    if asks is Approval.ALWAYS or tool.name in spec.approval.tools:
        return True
    if asks is Approval.DESTRUCTIVE and hints.destructive is not False and hints.read_only is not True:
        return True  # what does not say whether it destroys may do so
    if spec.approval.destructive and hints.destructive is True:
        return True
    return spec.approval.every and hints.read_only is not True

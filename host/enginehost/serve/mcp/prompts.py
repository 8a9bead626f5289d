"""``prompts/list`` and ``prompts/get``: functions that are prompts, and what agents and their skills say.

A function with ``FUNCTION_MCP = prompt`` gives the messages: a text, content of several kinds
(:class:`enginehost.values.McpContent`), or a list of ``{"role", "content"}``. An agent is a prompt with its
instructions (the body of its AGENT.md), each of its skills one with the skill's text: ``AGENT.SKILL``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from enginehost.agents.agent_engine import agent_behind
from enginehost.agents.skills import Skill, chosen, read_skills, skill_text
from enginehost.catalog import Entry
from enginehost.errors import Forbidden
from enginehost.serve.mcp.asking import Asking
from enginehost.serve.mcp.messages import Request
from enginehost.serve.mcp.paging import cursor_in, page_of
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.results import blocks_of
from enginehost.serve.mcp.tools import FRESH
from enginehost.serve.mcp.wire import INVALID_PARAMS, Fault, fault_of
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

PROMPT = "prompt"
"""What ``FUNCTION_MCP`` says of a function that is one."""


class _Text(NamedTuple):
    """A prompt that is a text."""

    title: str
    description: str
    read: Callable[[], str]


class Prompts:
    """The prompts of a host."""

    def __init__(self, host: Host, asking: Asking) -> None:
        self._host, self._asking = host, asking
        self._known: tuple[int, Mapping[str, Mapping[str, _Text]]] = (-1, {})

    def list(self, peer: Peer, params: Mapping[str, Any]) -> bytes:
        """The ``ListPromptsResult``, by name. Raises :class:`Fault`."""
        found = {entry.name: _described(entry) for entry in self._functions(peer)}
        for name, text in self._texts(peer).items():
            found.setdefault(name, {"name": name, "title": text.title, "description": text.description})
        names = sorted(found)
        page = page_of("prompts", names, [found[name] for name in names], cursor_in(params))
        return (FRESH if peer.modern else b"{") + page

    def names_of(self, peer: Peer) -> set[str]:
        """The names of all prompts that ``peer`` may see."""
        return {entry.name for entry in self._functions(peer)} | set(self._texts(peer))

    def entry(self, peer: Peer, name: str) -> Entry | None:
        """The function that is the prompt ``name``."""
        return next((entry for entry in self._functions(peer) if entry.name == name), None)

    async def get(self, peer: Peer, request: Request) -> bytes:
        """The ``GetPromptResult``. Raises :class:`Fault` and the host's errors."""
        name: Any = request.params.get("name")
        if not isinstance(name, str):
            raise Fault(INVALID_PARAMS, "name must be the name of a prompt")
        given: Any = request.params.get("arguments") or {}
        if not isinstance(given, dict):
            raise Fault(INVALID_PARAMS, "arguments must be an object")
        entry = self.entry(peer, name)
        if entry is not None:
            return await self._called(peer, request, entry, given)
        text = self._texts(peer).get(name)
        if text is None:
            raise Fault(INVALID_PARAMS, f"there is no prompt {name[:200]!r}")
        said = self._host.redactor(text.read())
        messages = [{"role": "user", "content": {"type": "text", "text": said}}]
        return write({"description": text.description, "messages": messages})

    async def _called(self, peer: Peer, request: Request, entry: Entry, given: dict[str, Any]) -> bytes:
        if not self._host.policy.may_call(peer.caller, entry.signature):
            raise Forbidden(f"{peer.caller.subject} may not call {entry.name}")

        async def work(answers: Mapping[str, Any] | None) -> bytes:
            call = self._host.new_call(entry.name, peer.caller)
            call.authorization, call.asks, call.answers = peer.authorization, peer.asks, answers
            found = await self._host.call_json(call, given, coerce=True)
            result = {"description": entry.signature.description, "messages": _messages(orjson.loads(found))}
            return write(result)

        with fault_of(INVALID_PARAMS):
            return await self._asking.run(peer, request, [entry.name, given], work)

    def _functions(self, peer: Peer) -> list[Entry]:
        found = self._host.functions(peer.caller, peer.tags)
        return [entry for entry in found if entry.signature.mcp == PROMPT]

    def _texts(self, peer: Peer) -> dict[str, _Text]:
        found: dict[str, _Text] = {}
        by_agent = self._by_agent()
        for name, texts in by_agent.items():
            entry = self._host.visible(name, peer.caller)
            if entry is None or (peer.tags and peer.tags.isdisjoint(entry.signature.tags)):
                continue
            if self._host.policy.may_call(peer.caller, entry.signature):
                found |= texts
        return found

    def _by_agent(self) -> Mapping[str, Mapping[str, _Text]]:
        """The texts of each agent by name; read again when the catalog has changed."""
        version, known = self._known
        if version != self._host.catalog.version:
            shared: Mapping[str, Skill] | None = None
            known = {}
            for entry in self._host.catalog:
                agent = agent_behind(entry.record.engine)
                if agent is None:
                    continue
                if shared is None:
                    folder = self._host.folder
                    shared = read_skills(folder / "skills").skills if folder is not None else {}
                library = {**shared, **agent.skill_library}
                spec = agent.spec
                known[entry.name] = dict(_texts_of(entry, spec.instructions, spec.skills, library))
            self._known = self._host.catalog.version, known
        return known


def _texts_of(
    entry: Entry, instructions: str, skills: tuple[str, ...], library: Mapping[str, Skill]
) -> list[tuple[str, _Text]]:
    title = entry.signature.annotations.title or entry.name
    found: list[tuple[str, _Text]] = []
    if instructions:
        found.append((entry.name, _Text(title, entry.signature.description, lambda: instructions)))
    for skill in chosen(skills, library):
        text = _Text(skill.name, skill.description, lambda skill=skill: skill_text(skill))
        found.append((f"{entry.name}.{skill.name}", text))
    return found


def _described(entry: Entry) -> dict[str, Any]:
    signature = entry.signature
    found: dict[str, Any] = {"name": entry.name, "description": signature.description}
    if signature.annotations.title:
        found["title"] = signature.annotations.title
    arguments: list[dict[str, Any]] = []
    for name, schema in signature.properties.items():
        about: dict[str, Any] = {"name": name, "required": name in signature.required}
        if isinstance(schema, Mapping) and isinstance(schema.get("description"), str):
            about["description"] = schema["description"]
        arguments.append(about)
    if arguments:
        found["arguments"] = arguments
    return found


def _messages(result: Any) -> list[dict[str, Any]]:
    """The messages that the result of a function is."""
    if isinstance(result, list) and result and all(_is_message(one) for one in result):
        return [{"role": one["role"], "content": blocks_of(one["content"])[0]} for one in result]
    return [{"role": "user", "content": block} for block in blocks_of(result)]


def _is_message(one: Any) -> bool:
    return isinstance(one, dict) and one.get("role") in ("user", "assistant") and "content" in one

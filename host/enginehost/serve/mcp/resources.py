"""``resources/…``: functions that are resources, the conversations of the caller, and smss files.

A function with a URI in ``FUNCTION_MCP`` is read by calling it; ``{parameter}`` in the URI makes it a
template. Conversations are their owner's alone. Files are shown only where the setting
``mcp.smss_files`` is on, to who may view a function of theirs, with what looks like a secret masked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

from enginehost import properties
from enginehost.agents.identity import owner_of
from enginehost.catalog import Entry
from enginehost.errors import Forbidden, UnknownSession
from enginehost.keys import PUBLIC_KEYS
from enginehost.redaction import MASK
from enginehost.safe_text import safe_text
from enginehost.serve.mcp.asking import Asking
from enginehost.serve.mcp.messages import Request
from enginehost.serve.mcp.paging import cursor_in, page_of
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.prompts import PROMPT
from enginehost.serve.mcp.results import MARK, blocks_of, media_of
from enginehost.serve.mcp.tools import FRESH, FRESH_MS
from enginehost.serve.mcp.wire import INVALID_PARAMS, RESOURCE_NOT_FOUND, Fault, fault_of
from enginehost.serve.sessions.shapes import message_json
from enginehost.substitute import is_secret_name
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host
    from enginehost.store.port import Store

SESSION = "session://"
SMSS = "smss://"
_MOST_SESSIONS = 1_000
_MOST_ROWS = 1_000
"""Messages of a conversation in one reading: the latest."""
_LONGEST_URI = 4_000
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SESSION_TEMPLATE = {
    "uriTemplate": SESSION + "{id}",
    "name": "conversation",
    "title": "Conversation",
    "description": "The messages of one of your conversations with an agent, as JSON.",
    "mimeType": "application/json",
}


class Resources:
    """The resources of a host."""

    def __init__(self, host: Host, asking: Asking) -> None:
        self._host, self._asking = host, asking

    async def list(self, peer: Peer, params: Mapping[str, Any]) -> bytes:
        """The ``ListResourcesResult``, by URI. Raises :class:`Fault`."""
        found = {uri: _described(entry, "uri") for uri, entry in self._functions(peer) if "{" not in uri}
        for about in [*await self._sessions(peer), *self._files(peer)]:
            found.setdefault(about["uri"], about)
        uris = sorted(found)
        page = page_of("resources", uris, [found[uri] for uri in uris], cursor_in(params))
        return (FRESH if peer.modern else b"{") + page

    def templates(self, peer: Peer, params: Mapping[str, Any]) -> bytes:
        """The ``ListResourceTemplatesResult``, by template. Raises :class:`Fault`."""
        found = {uri: _described(entry, "uriTemplate") for uri, entry in self._functions(peer) if "{" in uri}
        if self._has_sessions(peer):
            found.setdefault(_SESSION_TEMPLATE["uriTemplate"], _SESSION_TEMPLATE)
        uris = sorted(found)
        page = page_of("resourceTemplates", uris, [found[uri] for uri in uris], cursor_in(params))
        return (FRESH if peer.modern else b"{") + page

    async def read(self, peer: Peer, request: Request) -> bytes:
        """The ``ReadResourceResult``. Raises :class:`Fault` and the host's errors."""
        uri = uri_in(request.params)
        entry, arguments = self.find(peer, uri)
        if entry is not None:
            return await self._called(peer, request, entry, uri, arguments)
        content: dict[str, Any] | None = None
        if uri.startswith(SESSION):
            content = await self._conversation(peer, uri)
        elif uri.startswith(SMSS):
            content = await self._file(peer, uri)
        if content is None:
            raise _not_found(peer, uri)
        return _read(peer, [content])

    def find(self, peer: Peer, uri: str) -> tuple[Entry | None, dict[str, str]]:
        """The function that is the resource ``uri``, and its arguments; exact URIs before templates."""
        templates: list[tuple[Entry, dict[str, str]]] = []
        for found, entry in self._functions(peer):
            if found == uri:
                return entry, {}
            if "{" in found and (match := _pattern(found).fullmatch(uri)) is not None:
                values = {name: unquote(value) for name, value in match.groupdict().items()}
                templates.append((entry, values))
        return templates[0] if templates else (None, {})

    def template(self, peer: Peer, uri: str) -> Entry | None:
        """The function whose template is exactly ``uri``."""
        return next((entry for found, entry in self._functions(peer) if found == uri), None)

    async def check(self, peer: Peer, uri: str) -> None:
        """Raise :class:`Fault` for a resource that there is not (for this caller)."""
        if self.find(peer, uri)[0] is not None:
            return
        if uri.startswith(SESSION) and await self._conversation(peer, uri) is not None:
            return
        if uri.startswith(SMSS) and await self._file(peer, uri) is not None:
            return
        raise _not_found(peer, uri)

    # Functions

    def _functions(self, peer: Peer) -> list[tuple[str, Entry]]:
        found = self._host.functions(peer.caller, peer.tags)
        mine = (entry for entry in found if entry.signature.mcp not in ("", PROMPT))
        return [(entry.signature.mcp.partition(" ")[0], entry) for entry in mine]

    async def _called(
        self, peer: Peer, request: Request, entry: Entry, uri: str, arguments: dict[str, str]
    ) -> bytes:
        if not self._host.policy.may_call(peer.caller, entry.signature):
            raise Forbidden(f"{peer.caller.subject} may not call {entry.name}")
        media = entry.signature.mcp.partition(" ")[2].strip()

        async def work(answers: Mapping[str, Any] | None) -> bytes:
            call = self._host.new_call(entry.name, peer.caller)
            call.authorization, call.asks, call.answers = peer.authorization, peer.asks, answers
            found = await self._host.call_json(call, arguments, coerce=True)
            return _read(peer, _contents(uri, media, found))

        with fault_of(INVALID_PARAMS):
            return await self._asking.run(peer, request, [entry.name, arguments], work)

    # Conversations

    def _has_sessions(self, peer: Peer) -> bool:
        """Whether there are agents, and the caller is one who can have conversations."""
        caller = peer.caller
        return bool(self._host.agent_specs()) and not (caller.may_prove and not caller.authenticated)

    async def _store(self) -> Store:
        return (await self._host.agents()).store

    async def _sessions(self, peer: Peer) -> list[dict[str, Any]]:
        if not self._has_sessions(peer):
            return []
        found = await (await self._store()).sessions(owner_of(peer.caller), limit=_MOST_SESSIONS)
        return [
            {
                "uri": SESSION + quote(info.id, safe=""),
                "name": f"conversation {info.id}",
                "description": f"A conversation of {info.messages} messages.",
                "mimeType": "application/json",
            }
            for info in found
        ]

    async def _conversation(self, peer: Peer, uri: str) -> dict[str, Any] | None:
        if not self._has_sessions(peer):
            return None
        session, owner = unquote(uri.removeprefix(SESSION)), owner_of(peer.caller)
        try:
            rows = await (await self._store()).history(session, owner, before=1 << 62, limit=_MOST_ROWS)
        except UnknownSession:
            return None
        text = write([message_json(row) for row in rows]).decode()
        return {"uri": uri, "mimeType": "application/json", "text": text}

    # Files

    def _files(self, peer: Peer) -> list[dict[str, Any]]:
        if not self._host.settings.mcp.smss_files:
            return []
        records = {id(entry.record): entry.record for entry in self._host.functions(peer.caller, peer.tags)}
        return [
            {
                "uri": SMSS + quote(record.engine_id, safe=""),
                "name": record.path.name,
                "description": f"The file of the engine {record.engine_id}, with secrets masked.",
                "mimeType": "text/plain",
            }
            for record in records.values()
            if record.path is not None and record.path.suffix == ".smss"
        ]

    async def _file(self, peer: Peer, uri: str) -> dict[str, Any] | None:
        if not any(about["uri"] == uri for about in self._files(peer)):
            return None
        record = self._host.catalog.records.get(unquote(uri.removeprefix(SMSS)))
        if record is None or record.path is None:
            return None
        try:
            text = await asyncio.to_thread(record.path.read_text, encoding="utf-8", errors="replace")
        except OSError:
            return None
        return {"uri": uri, "mimeType": "text/plain", "text": self._redacted(text)}

    def _redacted(self, text: str) -> str:
        """The keys of a file with their values, as far as they tell no secret."""
        lines: list[str] = []
        for entry in properties.parse(text):
            value = self._host.redactor(entry.value)
            if is_secret_name(entry.key):
                value = MASK
            elif entry.key.upper() not in PUBLIC_KEYS:
                value = safe_text(value, self._host.redactor)
            lines.append(f"{entry.key} = {value}")
        return "\n".join(lines) + "\n"


def uri_in(params: Mapping[str, Any]) -> str:
    """The URI of a request. Raises :class:`Fault`."""
    uri: Any = params.get("uri")
    if not isinstance(uri, str) or not 0 < len(uri) <= _LONGEST_URI:
        raise Fault(INVALID_PARAMS, "uri must be the URI of a resource")
    return uri


def _not_found(peer: Peer, uri: str) -> Fault:
    code = INVALID_PARAMS if peer.modern else RESOURCE_NOT_FOUND
    return Fault(code, "there is no such resource", {"uri": uri})


def _described(entry: Entry, member: str) -> dict[str, Any]:
    uri, _, media = entry.signature.mcp.partition(" ")
    found: dict[str, Any] = {member: uri, "name": entry.name, "description": entry.signature.description}
    if entry.signature.annotations.title:
        found["title"] = entry.signature.annotations.title
    if media.strip():
        found["mimeType"] = media.strip()
    return found


@lru_cache(1_000)
def _pattern(template: str) -> re.Pattern[str]:
    """What a URI template matches: a variable stands for characters other than ``/``."""
    parts = _VARIABLE.split(template)
    text, seen = "", set[str]()
    for index, part in enumerate(parts):
        if index % 2 == 0:
            text += re.escape(part)
        elif part in seen:
            text += f"(?P={part})"
        else:
            seen.add(part)
            text += f"(?P<{part}>[^/]+)"
    return re.compile(text)


def _contents(uri: str, media: str, result: bytes) -> list[dict[str, Any]]:
    """What the result of a function is as a resource."""
    value: Any = orjson.loads(result)
    if isinstance(value, str):
        return [{"uri": uri, "mimeType": media or "text/plain", "text": value}]
    if isinstance(value, dict) and value.keys() == {"$bytes"}:
        encoded = value["$bytes"]
        return [{"uri": uri, "mimeType": media or media_of(encoded), "blob": encoded}]
    if isinstance(value, dict) and value.keys() == {MARK}:
        return [_content(uri, media, block) for block in blocks_of(value)]
    return [{"uri": uri, "mimeType": media or "application/json", "text": result.decode()}]


def _content(uri: str, media: str, block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "resource":
        return block["resource"]
    if "data" in block:
        return {"uri": uri, "mimeType": media or block["mimeType"], "blob": block["data"]}
    return {"uri": uri, "mimeType": media or "text/plain", "text": str(block.get("text", ""))}


def _read(peer: Peer, contents: list[dict[str, Any]]) -> bytes:
    result: dict[str, Any] = {"contents": contents}
    if peer.modern:
        result |= {"ttlMs": FRESH_MS, "cacheScope": "private"}
    return write(result)

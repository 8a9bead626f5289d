"""The functions as an OpenAPI 3.1 document: one operation each, its schemas as they are declared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import enginehost
from enginehost.caller import Caller, anonymous
from enginehost.catalog import Entry
from enginehost.errors import ERROR_TABLE
from enginehost.serve.agents.openapi import agent_paths, agent_schemas
from enginehost.serve.agents.seen import agents_callable, agents_seen
from enginehost.serve.catalog_openapi import OPEN, catalog_paths
from enginehost.serve.openai.openapi import openai_paths
from enginehost.serve.sessions.openapi import session_paths, session_schemas
from enginehost.serve.views import function_path
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

_MOST_CACHED = 8
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA = frozenset({"const", "enum", "default", "examples", "example"})
_PROBLEM = {
    "type": "object",
    "description": "A problem document (RFC 9457). Further members depend on the code.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "enum": list(ERROR_TABLE)},
        "instance": {"type": "string", "description": "The call id."},
        "error": {
            "type": "object",
            "description": "The error as on every face.",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "detail": {"type": "object"},
            },
        },
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "required": ["type", "title", "status", "detail", "code"],
}


class Shown(NamedTuple):
    """What the document tells of beside functions, and what needs no token.

    ``sessions`` with agents of this host, questions to ``agents`` of any, and whether anonymous callers may
    ask one (``asking``); ``routes``: those that call nothing; ``functions`` that anonymous callers may call.
    """

    sessions: bool = False
    agents: bool = False
    asking: bool = False
    routes: bool = False
    functions: frozenset[str] = frozenset()


ONLY_FUNCTIONS = Shown()


class OpenApi:
    """Makes the documents of a host, and keeps the last few as bytes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._cache: dict[tuple[int, Shown, tuple[str, ...]], bytes] = {}

    async def document(self, caller: Caller, tags: Iterable[str], *, routes: bool = False) -> bytes:
        """The document of the functions that ``caller`` may view; with ``routes``, of all else too."""
        entries = self._host.functions(caller, tags)
        shown = self._shown(caller, entries, routes)
        key = (self._host.catalog.version, shown, tuple(entry.name for entry in entries))
        found = self._cache.get(key)
        if found is None:
            names = self._host.face_names("openai")
            operations = [(entry, names.to_face(entry.name)) for entry in entries]
            # on a thread: ten thousand functions take a good part of a second
            authenticates = self._host.settings.authenticates
            found = await asyncio.to_thread(_rendered, operations, authenticates, shown)
            while len(self._cache) >= _MOST_CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = found
        return found

    def _shown(self, caller: Caller, entries: list[Entry], routes: bool) -> Shown:
        host, agents = self._host, self._host.agent_specs()
        sessions = any(entry.name in agents for entry in entries)
        nobody = anonymous("http")
        open_to_all = frozenset(
            entry.name
            for entry in entries
            if host.settings.authenticates and host.policy.may_call(nobody, entry.signature)
        )
        return Shown(
            sessions=sessions,
            agents=sessions or bool(agents_seen(host, caller)),
            asking=bool(open_to_all) and bool(agents_callable(host, nobody)),
            routes=routes,
            functions=open_to_all,
        )


def _rendered(operations: list[tuple[Entry, str]], authenticates: bool, shown: Shown) -> bytes:
    return write(openapi_document(operations, authenticates, shown))


def openapi_document(
    operations: Iterable[tuple[Entry, str]], authenticates: bool, shown: Shown = ONLY_FUNCTIONS
) -> dict[str, Any]:
    """OpenAPI 3.1 for functions, each with its operation id (of ``[A-Za-z0-9_-]``), and for ``shown``."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    for entry, operation_id in operations:
        arguments, result = f"{operation_id}.arguments", f"{operation_id}.result"
        schemas[arguments] = moved(entry.signature.parameters, f"#/components/schemas/{arguments}")
        schemas[result] = moved(entry.signature.result or {}, f"#/components/schemas/{result}")
        operation = _operation(entry, operation_id, arguments, result)
        paths[function_path(entry.name)] = {"post": operation}
        if entry.name in shown.functions:
            operation["security"] = OPEN
    if shown.sessions:
        paths |= session_paths()
        schemas |= session_schemas()
    if shown.agents:
        paths |= agent_paths(OPEN if authenticates else None, asking=shown.asking)
        schemas |= agent_schemas()
    if shown.routes:
        paths |= _all_open(catalog_paths() | openai_paths(), authenticates)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "enginehost", "version": enginehost.__version__},
        "paths": paths,
        "components": {"schemas": schemas, "responses": {"Problem": _problem_response()}},
    }
    if authenticates:
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
    return document


def _all_open(paths: dict[str, Any], authenticates: bool) -> dict[str, Any]:
    """``paths`` as they are; where nobody can be told from anybody, no operation says who may ask."""
    if not authenticates:
        for methods in paths.values():
            for operation in methods.values():
                operation.pop("security", None)
    return paths


def _operation(entry: Entry, operation_id: str, arguments: str, result: str) -> dict[str, Any]:
    signature = entry.signature
    operation: dict[str, Any] = {
        "operationId": operation_id,
        "summary": signature.annotations.title or signature.name,
        "requestBody": {
            "required": bool(signature.required),
            "content": {"application/json": {"schema": _ref(arguments)}},
        },
        "responses": {
            "200": {"description": "The result.", "content": _content(signature.streaming, result)},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if signature.description:
        operation["description"] = signature.description
    if signature.tags:
        operation["tags"] = list(dict.fromkeys(signature.tags))
    return operation


def _content(streaming: bool, result: str) -> dict[str, Any]:
    schema = {"type": "array", "items": _ref(result)} if streaming else _ref(result)
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return {"application/json": {"schema": wrapped}, "text/event-stream": {"schema": {"type": "string"}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _problem_response() -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _ref("Problem")}}
    return {"description": "The call failed, or was refused.", "content": content}


def moved(schema: Any, place: str) -> Any:
    """``schema`` with its references to itself (``#/$defs/…``) led to ``place``, where it stands now.

    A schema with an ``$id`` is its own document: its references stay.
    """
    if not isinstance(schema, Mapping) or "$id" in schema:
        return schema
    return {key: _moved_value(key, value, place) for key, value in schema.items() if key != "$schema"}


def _moved_value(key: str, value: Any, place: str) -> Any:
    if key == "$ref" and isinstance(value, str):
        own = value == "#" or value.startswith("#/")
        return place + value[1:] if own else value
    if key in _DATA:
        return value
    if key in _SCHEMA_MAPS and isinstance(value, Mapping):
        return {name: moved(part, place) for name, part in value.items()}
    if isinstance(value, list):
        return [moved(part, place) for part in value]
    return moved(value, place)

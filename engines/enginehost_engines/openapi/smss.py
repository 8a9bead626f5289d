"""An operation as the text of a smss file, for people to read and edit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import dumps
from typing import Any, cast

from enginehost.importing import Shared, comment, key_line, literal
from enginehost_engines.openapi.faults import Found, text_of
from enginehost_engines.openapi.operations import STREAM_CLASS, Operation
from enginehost_engines.openapi.servers import Server

_PLACE = re.compile(r"\{([^{}]*)\}")
_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_SECRETS = re.compile(r"[^A-Za-z0-9_.-]+")


def file_stem(name: str) -> str:
    """The name of a function's file: two underscores would part an alias from an id."""
    return re.sub("_{2,}", "_", name).strip("_") or "operation"


def smss_of(operation: Operation, secrets: str, shared: Shared) -> str:
    """The text of the file. ``secrets`` is what the names of its secrets begin with."""
    parts = [
        _head(operation),
        "\n".join(_function(operation, secrets, shared)),
        "\n".join(_endpoint(operation)),
        "\n".join(_credentials(operation, secrets)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(operation: Operation) -> str:
    lines = [comment(f"{operation.method} {operation.path}")]
    if operation.notes:
        lines += ["#", "# What the document says besides, and this file does not:"]
        lines += [comment(f"- {found.message} ({place_of(found)})") for found in operation.notes]
    kind = STREAM_CLASS if operation.streams else "REST"
    return "\n".join([*lines, key_line("ENGINE_CLASS", kind)])


def place_of(found: Found) -> str:
    """The place of a finding, as a reference writes it."""
    return f"{found.document}#{text_of(found.pointer)}"


def _function(operation: Operation, secrets: str, shared: Shared) -> Iterator[str]:
    signature = operation.signature
    yield key_line("FUNCTION_NAME", signature.name)
    yield key_line("FUNCTION_DESCRIPTION", literal(signature.description))
    yield from _parameters(dict(signature.parameters), shared)
    if operation.hidden:
        yield "# The host fills these in; no caller sees them."
        yield f"FUNCTION_BIND = {_bound(operation, secrets)}"
    if signature.result is not None:
        yield "# Answers are checked against this; take it out where the service does not keep to it."
        yield key_line("FUNCTION_RESULT", dict(signature.result), shared)
    notes = signature.annotations
    said = {
        "title": notes.title,
        "readOnly": notes.read_only,
        "destructive": notes.destructive,
        "idempotent": notes.idempotent,
        "openWorld": notes.open_world,
    }
    yield key_line("FUNCTION_ANNOTATIONS", {key: value for key, value in said.items() if value is not None})
    if signature.tags:
        yield key_line("FUNCTION_TAGS", list(signature.tags))


def _bound(operation: Operation, secrets: str) -> str:
    names = {name: secret_name(secrets, secret) for name, secret in operation.hidden.items()}
    return dumps({name: f"${{secret:{secret}}}" for name, secret in names.items()})


def _parameters(schema: dict[str, Any], shared: Shared) -> Iterator[str]:
    """The parameters as a list, which is easier to read, where no definitions go with them."""
    if schema.keys() - {"type", "properties", "required"}:
        yield key_line("FUNCTION_PARAMETERS", schema, shared)
        return
    entries: list[Any] = []
    for name, member in cast("dict[str, Any]", schema["properties"]).items():
        if not isinstance(member, dict) or member.keys() & {"name", "parameterName"}:
            yield key_line("FUNCTION_PARAMETERS", schema, shared)
            return
        entries.append({"name": name, **_ordered(cast("dict[str, Any]", member))})
    yield key_line("FUNCTION_PARAMETERS", entries)
    if schema.get("required"):
        yield key_line("FUNCTION_REQUIRED_PARAMETERS", schema["required"])


def _ordered(member: dict[str, Any]) -> dict[str, Any]:
    first = {key: member[key] for key in ("type", "description") if key in member}
    return {**first, **{key: item for key, item in member.items() if key not in first}}


def _endpoint(operation: Operation) -> Iterator[str]:
    base, lines = _base(operation.server)
    yield from lines
    yield key_line("BASE_URL", base)
    yield key_line("API_ENDPOINT_URL", "${BASE_URL}" + literal(operation.url))
    for key, value in operation.rest.items():
        yield key_line(key, literal(value) if isinstance(value, str) else value)


def _base(server: Server) -> tuple[str, list[str]]:
    lines: list[str] = []
    keys: dict[str, str] = {}
    for name, value in server.variables.items():
        key = f"SERVER_{_NOT_IN_KEYS.sub('_', name).upper()}"
        keys[name] = key
        if server.choices.get(name):
            lines.append(comment(server.choices[name]))
        lines.append(key_line(key, literal(value)))
    pieces = _PLACE.split(server.template)
    texts = [
        literal(piece) if number % 2 == 0 else f"${{{keys.get(piece, piece)}}}"
        for number, piece in enumerate(pieces)
    ]
    return "".join(texts), lines


def _credentials(operation: Operation, secrets: str) -> Iterator[str]:
    security = operation.security
    if security.keys:
        yield "# Put the credentials where the host looks for secrets, or name them here in another way."
    for key, value in security.keys.items():
        if key in security.secrets:
            yield f"{key} = ${{secret:{secret_name(secrets, security.secrets[key])}}}"
        else:
            yield key_line(key, literal(value))


def secret_name(prefix: str, name: str) -> str:
    """The name of a secret: of the document, then of the security scheme."""
    return _NOT_IN_SECRETS.sub("-", f"{prefix}-{name}").strip("-")

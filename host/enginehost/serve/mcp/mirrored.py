"""Arguments that a client repeats as headers (``x-mcp-header`` in a parameter's schema), 2026-07-28.

What stands between client and host may have read the header: where it says something else than the body, the
request is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from enginehost.serve.mcp.messages import decoded_header
from enginehost.serve.mcp.wire import HEADER_MISMATCH, Fault

KEYWORD = "x-mcp-header"
_PREFIX = "mcp-param-"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TYPES = frozenset({"string", "integer", "boolean"})
_DECIMAL = re.compile(r"(-?[0-9]{1,400})(?:\.0+)?")


class Mirrored(NamedTuple):
    """One such argument: where it stands, and the header's name as headers are looked up."""

    path: tuple[str, ...]
    header: bytes
    type: str


def mirrored_in(schema: Mapping[str, Any]) -> tuple[Mirrored, ...]:
    """The arguments of a function that have headers; of two with one header none."""
    found = list(_found(schema, ()))
    names = [one.header for one in found]
    return tuple(one for one in found if names.count(one.header) == 1)


def _found(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Mirrored]:
    properties: Any = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(inner, Mapping):
            continue
        token: Any = inner.get(KEYWORD)
        if isinstance(token, str) and _TOKEN.fullmatch(token) and inner.get("type") in _TYPES:
            yield Mirrored((*path, name), f"{_PREFIX}{token}".lower().encode(), str(inner["type"]))
        yield from _found(inner, (*path, name))


def check_mirrored(
    wanted: tuple[Mirrored, ...], arguments: Mapping[str, Any], headers: Mapping[bytes, bytes]
) -> None:
    """Raise :class:`Fault` where a header and its argument are not there together, or differ."""
    for one in wanted:
        value, header = _at(arguments, one.path), headers.get(one.header)
        text = _text(value)
        if (text is None) != (header is None):
            raise Fault(HEADER_MISMATCH, f"{one.header.decode()} and the argument go together")
        if text is not None and not _same(one.type, value, text, decoded_header(header)):
            raise Fault(HEADER_MISMATCH, f"{one.header.decode()} is not what the argument is")


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return (
        str(value) if isinstance(value, str | float) or (isinstance(value, int) and _short(value)) else None
    )


def _short(value: int) -> bool:
    return value.bit_length() < 1_000


def _same(kind: str, value: Any, text: str, header: str | None) -> bool:
    if header is None:
        return False
    whole = _DECIMAL.fullmatch(header)
    if kind == "integer" and isinstance(value, int | float) and not isinstance(value, bool) and whole:
        return value == int(whole[1])
    return header == text

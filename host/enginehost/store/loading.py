"""A session from JSON lines: those of an export, or rows as other programs keep them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from enginehost.errors import InvalidRequest, TooLarge
from enginehost.llm.message import Message, Role, Status, Type, Usage
from enginehost.store.rows import loads

MOST_LINE = 64 << 20
"""Bytes of a line."""
_MOST_SEQUENCE = 10**15
"""Numbers go on from the last one of a file; every JSON reader takes those up to 2**53."""
_LATEST = 253402300799.0
"""The last second of the year 9999."""

_NAMES = {"ID": "id", "createdAt": "created_at", "modifiedAt": "modified_at"}
_USAGE = frozenset(Usage.__slots__)


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines out of chunks of any size. Raises :class:`TooLarge`."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        for other in others:
            if line := b"".join(rest).rstrip():
                yield line
            rest, size = [other], len(other)
        if size > MOST_LINE:
            raise TooLarge("a line", limit=MOST_LINE)
    if line := b"".join(rest).rstrip():
        yield line


def parse_line(line: bytes, number: int) -> Message:
    """One line. Raises :class:`InvalidRequest`, which says what is wrong with it."""
    try:
        found = loads(line)
        if not isinstance(found, dict):
            raise TypeError("it is no object")
        row = cast("dict[str, Any]", found)
        return _message({_NAMES.get(name, name): value for name, value in row.items()})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidRequest(f"line {number} is no message: {error}") from None


def _message(found: Mapping[str, Any]) -> Message:
    role, kind, query = _kind(str(found.get("role") or "user"), str(found.get("type") or "text"), found)
    if kind is Type.COMPACTION and not _is_whole((query or {}).get("upto"), _MOST_SEQUENCE):
        raise ValueError("a compaction needs query.upto, the sequence up to which it stands")
    return Message(
        role,
        kind,
        _text(found.get("content")),
        query,
        _object(found, "provider"),
        _usage(found.get("usage")),
        Status(found.get("status") or "done"),
        str(found.get("id") or ""),
        sequence=_sequence(found.get("sequence")),
        created_at=_time(found.get("created_at")),
        modified_at=_time(found.get("modified_at")),
    )


def _kind(role: str, kind: str, found: Mapping[str, Any]) -> tuple[Role, Type, Mapping[str, Any] | None]:
    """Role and type; of a row of type ``tool``, the query says whether it is a call or a result."""
    query = _object(found, "query")
    if kind != "tool":
        return Role(role), Type(kind), query
    if query is None:
        raise ValueError("a row of type tool needs its query")
    if role == "assistant" and "result" not in query:
        return Role.ASSISTANT, Type.TOOL_CALL, query
    return Role.TOOL, Type.TOOL_RESULT, query


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("content has to be text")
    return value


def _object(found: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = found.get(name)
    if isinstance(value, str) and value:
        value = loads(value)  # other programs keep JSON as text
    if value is None or isinstance(value, dict):
        return cast("Mapping[str, Any] | None", value)
    raise TypeError(f"{name} has to be an object")


def _usage(value: Any) -> Usage | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) - _USAGE:
        raise TypeError("usage has to be an object of token counts")
    members = cast("dict[str, Any]", value)
    for name, said in members.items():
        _check_count(name, said)
    return Usage(**members)


def _check_count(name: str, value: Any) -> None:
    if name == "model":
        right = isinstance(value, str)
    elif name == "cost":
        right = value is None or (_is_number(value) and value >= 0)
    else:
        right = _is_whole(value, _MOST_SEQUENCE)
    if not right:
        raise TypeError(f"{name} of usage has to be {'a text' if name == 'model' else 'a number from 0 on'}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _sequence(value: Any) -> int:
    """The row's number; 0 where it has none."""
    if value is not None and not _is_whole(value, _MOST_SEQUENCE):
        raise ValueError(f"sequence has to be a whole number from 0 to {_MOST_SEQUENCE}")
    return value or 0


def _time(value: Any) -> float:
    """Seconds since 1970; or RFC 3339."""
    if not isinstance(value, str):
        if value is not None and not (_is_number(value) and 0 <= value <= _LATEST):
            raise TypeError("times have to be seconds since 1970, or RFC 3339")
        return float(value or 0.0)
    from datetime import datetime

    return datetime.fromisoformat(value).timestamp()

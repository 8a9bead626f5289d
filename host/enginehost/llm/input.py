"""What a program sends, as rows that every try reads from the first one."""

from __future__ import annotations

import tempfile
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import aclosing, closing, contextmanager
from dataclasses import replace
from typing import Any, cast

import orjson

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Role, Status, Type, user
from enginehost.llm.model import Rows
from enginehost.llm.option_checks import nearest
from enginehost.llm.passage import Batches, Context, Passage, in_batches, one_by_one

Row = Message | Mapping[str, Any] | str
"""A message; its columns as a mapping (``{"role": "user", "content": "…"}``); or what a user says."""

Input = Row | Iterable[Row] | AsyncIterable[Row] | Callable[[], Iterable[Row] | AsyncIterable[Row]]
"""What ``send`` takes. An async iterator that can be read once only is kept in a temporary file as it is
read, so that a repetition has it from the beginning; a function gives it anew and needs none."""

_IN_MEMORY = 1024 * 1024
"""Bytes of such an iterator that are kept before the file is made."""


@contextmanager
def rows_of(given: Input) -> Generator[Rows, None, None]:
    """The rows in the order that model engines expect. Raises :class:`InvalidRequest`."""
    if isinstance(given, AsyncIterator):
        with closing(_Once(given)) as once:
            yield Context(lambda _: _ordered(one_by_one(once.rows())))
    else:
        yield _rows(given)


def _rows(given: Any) -> Rows:
    if isinstance(given, str | Message | Mapping):
        return _of_list([as_message(cast("Row", given))])
    if callable(given):
        anew = given if isinstance(given, Context) else _begun_by(cast("Callable[[], object]", given))
        return Context(lambda form: _ordered(in_batches(anew, form)))
    if isinstance(given, AsyncIterable):
        return Context(lambda _: _ordered(one_by_one(_messages(given))))
    if isinstance(given, Iterable):
        return _of_list([as_message(row) for row in given])
    raise InvalidRequest(f"a model takes text or messages, not {type(given).__name__}")


def _begun_by(function: Callable[[], object]) -> Callable[[], AsyncIterable[Message]]:
    """What a program's function gives, each time it is called, as messages."""

    def begin() -> AsyncIterable[Message]:
        rows = function()
        if isinstance(rows, AsyncIterable):
            return _messages(cast("AsyncIterable[Row]", rows))
        if isinstance(rows, Iterable) and not isinstance(rows, str | Mapping):
            return _each(cast("Iterable[Row]", rows))
        text = f"a function that is sent gives an iterable of messages, not {type(rows).__name__}"
        raise InvalidRequest(text)

    return begin


def as_message(row: Row) -> Message:
    """A row as a message. Raises :class:`InvalidRequest` where it is none; the text says why."""
    if isinstance(row, Message):
        return row
    if isinstance(row, str):
        return user(row)
    if not isinstance(cast("Any", row), Mapping):
        text = f"a message is a text, a Message or a mapping with role and content, not {type(row).__name__}"
        raise InvalidRequest(text)
    for name in row:
        if name not in _COLUMNS:
            raise InvalidRequest(f"a message has no member {str(name)[:100]!r}{nearest(str(name), _COLUMNS)}")
    known: dict[str, Any] = {name: row[name] for name in _GIVEN if name in row}
    words = (("role", Role, "user"), ("type", Type, "text"), ("status", Status, "done"))
    known |= {name: _word(name, kind, row.get(name, usual)) for name, kind, usual in words}
    _check_columns(known)
    return Message(**known)


def _word(name: str, kind: type[Role | Type | Status], value: Any) -> Role | Type | Status:
    try:
        return kind(value)
    except ValueError:
        text = f"{name} of a message is one of {', '.join(kind)}, not {repr(value)[:100]}"
        raise InvalidRequest(text) from None


def _check_columns(known: Mapping[str, Any]) -> None:
    if not isinstance(content := known.get("content", ""), str):
        raise InvalidRequest(f"content of a message is a text, not {type(content).__name__}")
    for name in ("query", "provider"):
        if not isinstance(value := known.get(name), Mapping | None):
            raise InvalidRequest(f"{name} of a message is an object, not {type(value).__name__}")


def _of_list(messages: list[Message]) -> Rows:
    if not messages:
        raise InvalidRequest("a model needs at least one message")
    messages.sort(key=lambda message: message.role is not Role.SYSTEM)  # stable

    async def rows() -> Batches:
        yield messages

    return Context(lambda _: _ordered(rows()))


async def _messages(rows: AsyncIterable[Row]) -> AsyncGenerator[Message, None]:
    try:
        async for row in rows:
            yield row if isinstance(row, Message) else as_message(row)
    finally:
        close: Any = getattr(rows, "aclose", None)
        if close is not None:
            await close()


async def _each(rows: Iterable[Row]) -> AsyncGenerator[Message, None]:
    for row in rows:
        yield as_message(row)


async def _ordered(batches: Batches) -> Batches:
    """The rows without those that no provider has a place for."""
    begun = False
    async with aclosing(batches):
        async for batch in batches:
            if isinstance(batch, Passage):
                yield batch  # what comes before it has begun
                continue
            found: list[Message] = []
            for message in batch:
                kind = message.type
                if message.role is not Role.SYSTEM:
                    begun = True
                elif begun:
                    raise InvalidRequest("system messages come before all others")
                if kind is Type.COMPACTION:
                    found.append(replace(message, role=Role.USER, type=Type.TEXT, query=None))
                elif kind is not Type.APPROVAL:
                    found.append(message)
            yield found


class _Once:
    """Rows that come once, kept for repetitions; one reader at a time."""

    def __init__(self, source: AsyncIterator[Row]) -> None:
        self._source = source
        # closed, and gone, by `close`
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="enginehost-rows-")  # noqa: SIM115

    def close(self) -> None:
        """Forget them."""
        self._kept.close()

    async def rows(self) -> AsyncGenerator[Message, None]:
        """Those that have been read, then the rest."""
        self._kept.seek(0)
        for line in self._kept:
            yield _restored(line)
        async for row in self._source:
            message = as_message(row)
            self._kept.write(_line(message))
            yield message


def _line(message: Message) -> bytes:
    fields = {name: getattr(message, name) for name in _KEPT}
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _restored(line: bytes) -> Message:
    return as_message(orjson.loads(line))


_COLUMNS = tuple(Message.__dataclass_fields__)
_GIVEN = tuple(name for name in Message.__dataclass_fields__ if name != "usage")
_KEPT = ("role", "type", "content", "query", "provider", "status", "id")

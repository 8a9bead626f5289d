"""Server-sent events of a model provider, split on bytes (WHATWG HTML, 9.2.6).

What providers say is JSON in ``data``, with its type inside, so the names of events are left out. A typed
object a chunk, as vendors' libraries make, costs ten times as much.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import orjson

from enginehost.errors import ExecutionFailed

MOST_EVENT = 64 * 1024 * 1024
"""Bytes of one event. More is no answer of a model."""

DONE = b"[DONE]"
"""What OpenAI and its like send as the last event."""

UNLIKE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What comes of reading JSON that has another form than was thought."""

_BOM = b"\xef\xbb\xbf"


class Splitter:
    """Splits a stream of bytes into the ``data`` of its events."""

    __slots__ = ("_begun", "_parts", "_return", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        """The begun event as it came, so that a long one is not copied at each read."""
        self._size = 0
        self._begun = False
        self._return = False
        """Whether the last chunk ended with a carriage return, to which a line feed may belong."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that ``chunk`` completes. Raises :class:`ExecutionFailed` for one that is too long."""
        if not chunk:
            return []
        if b"\r" in chunk or self._return:
            chunk = self._with_line_feeds(chunk)
        if not self._begun:
            chunk, self._begun = chunk.removeprefix(_BOM), True
        # the blank line may stand across the border of two chunks
        across = bool(self._parts) and self._parts[-1].endswith(b"\n") and chunk.startswith(b"\n")
        if not across and b"\n\n" not in chunk:
            self._keep(chunk)
            return []
        whole = b"".join((*self._parts, chunk)) if self._parts else chunk
        *events, rest = whole.split(b"\n\n")
        self._parts, self._size = [], 0
        self._keep(rest)
        return _data_of(events)

    def end(self) -> list[bytes]:
        """The event that the stream ended in, where its lines came whole (some servers leave out the last
        blank line).
        """
        rest = b"".join(self._parts)
        self._parts, self._size = [], 0
        return _data_of([rest])

    def _keep(self, rest: bytes) -> None:
        if not rest:
            return
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MOST_EVENT:
            raise malformed(f"an event has more than {MOST_EVENT} bytes")

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        if self._return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._return = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data_of(events: list[bytes]) -> list[bytes]:
    found: list[bytes] = []
    for event in events:
        if event.startswith(b"data: ") and b"\n" not in event:
            found.append(event[6:])
        elif lines := [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]:
            found.append(b"\n".join(lines))
    return found


async def events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[list[bytes], None]:
    """The ``data`` of the events, as many at once as came together. Closing ``chunks`` is the caller's."""
    splitter = Splitter()
    async for chunk in chunks:
        if found := splitter.feed(chunk):
            yield found
    if found := splitter.end():
        yield found


def loads(data: bytes) -> Any:
    """The JSON of an event. Raises :class:`ExecutionFailed` where it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise malformed("an event holds no JSON") from None


def malformed(why: str) -> ExecutionFailed:
    """A stream that says what no provider should. Trying again may help: a proxy may have spoilt it."""
    return ExecutionFailed(
        f"the model's answer cannot be read: {why}", detail={"type": "MalformedStream", "retryable": True}
    )


def cut_off(why: str = "the stream ended without its last event") -> ExecutionFailed:
    """A stream that ended before the answer did."""
    return ExecutionFailed(
        f"the model's answer was cut off: {why}", detail={"type": "CutOff", "retryable": True}
    )

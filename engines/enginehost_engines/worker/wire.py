"""Frames between host and worker: length, kind, call id, payload (in the wire dialect of values).

::

    host → worker   LOAD     what to load, first frame of all
                    CALL     [function, arguments, call]; answered by RESULT or ERROR
                    STREAM   the same; answered by ITEMs, then END or ERROR
                    CREDIT   the reader took so many items (a little-endian uint32)
                    CANCEL   end this call or stream early; answered by END or ERROR
                    DESCRIBE [function]; answered by RESULT (how it runs) or ERROR
    worker → host   READY    loaded: {about: what there is to call, files: {imported: stamp}}
                    FAILED   could not load, and why
                    CHANGED  what READY said is now so
                    RESULT, ITEM, END, ERROR
                    CANCELLING  a CANCEL was heard (the worker is not stuck)
                    LOG      [level, text] of the call with this id (0: of none)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from enginehost.errors import TooLarge

HEADER = struct.Struct("<IBI")
"""Length of the payload in bytes, kind, call id."""

CREDIT_PAYLOAD = struct.Struct("<I")

WINDOW = 16
"""Items of a stream that may be under way to a reader that has not taken them."""

LOAD, CALL, STREAM, CREDIT, CANCEL, DESCRIBE = range(1, 7)
READY, FAILED, CHANGED, RESULT, ITEM, END, ERROR, CANCELLING, LOG = range(16, 25)


MOST_BYTES = 256 * 1024 * 1024
"""The longest payload."""


def frame(kind: int, call_id: int, payload: bytes = b"") -> bytes:
    """One frame as bytes. Raises :class:`~enginehost.errors.TooLarge`."""
    if len(payload) > MOST_BYTES:
        raise TooLarge("a message between host and worker", limit=MOST_BYTES, size=len(payload))
    return HEADER.pack(len(payload), kind, call_id) + payload


Frame = tuple[int, int, bytes]
"""Kind, call id, payload."""


class FrameReader:
    """Cuts frames out of bytes as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take more bytes; the frames that are complete now."""
        rest = self._rest
        if not rest and len(data) >= HEADER.size:
            length, kind, call_id = HEADER.unpack_from(data)
            if len(data) == HEADER.size + length:  # one whole frame, as nearly always
                return [(kind, call_id, data[HEADER.size :])]
        rest += data
        return list(self._cut(rest))

    def _cut(self, rest: bytearray) -> Iterator[Frame]:
        start, end = 0, len(rest)
        while end - start >= HEADER.size:
            length, kind, call_id = HEADER.unpack_from(rest, start)
            body = start + HEADER.size
            if end - body < length:
                break
            start = body + length
            yield kind, call_id, bytes(memoryview(rest)[body:start])
        del rest[:start]

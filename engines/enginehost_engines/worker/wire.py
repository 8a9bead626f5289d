"""Frames between host and worker: length, kind, call id, payload (in the wire dialect of values).

::

    host → worker   LOAD     what to load, first frame of all
                    CALL     [function, arguments, call]; answered by RESULT or ERROR
                    STREAM   the same; answered by ITEMS, then END or ERROR
                    CREDIT   the reader took so many items (a little-endian uint32)
                    CANCEL   end this call or stream early; answered by END or ERROR
                    DESCRIBE [function]; answered by RESULT (how it runs) or ERROR
    worker → host   READY    loaded: {about: what there is to call, files: {imported: stamp}}
                    FAILED   could not load, and why
                    CHANGED  what READY said is now so
                    RESULT, END, ERROR
                    ITEMS    an array of one or more items
                    CANCELLING  a CANCEL was heard (the worker is not stuck)
                    LOG      [level, text] of the call with this id (0: of none); or [0, what it tells
                             its caller]
"""

from __future__ import annotations

import struct

from enginehost.errors import TooLarge
from enginehost.values import Parted
from enginehost_engines.worker.area import NOWHERE, Area, MalformedFrame

HEADER = struct.Struct("<IBI")
"""Length of the payload in bytes, kind, call id."""

_pack_header = HEADER.pack

CREDIT_PAYLOAD = struct.Struct("<I")

WINDOW = 16
"""Items of a stream that may be under way to a reader that has not taken them, at first."""

MOST_WINDOW = 1024
"""The same, for a reader that keeps up with small items."""

LOAD, CALL, STREAM, CREDIT, CANCEL, DESCRIBE = range(1, 7)
READY, FAILED, CHANGED, RESULT, ITEMS, END, ERROR, CANCELLING, LOG = range(16, 25)


MOST_BYTES = 256 * 1024 * 1024
"""The longest payload."""


PARTS = 0x80
"""Added to the kind of a frame whose payload has large parts (see :mod:`.area`)."""


def frame(kind: int, call_id: int, payload: bytes = b"", area: Area = NOWHERE) -> bytes:
    """One frame as bytes; its large parts go into ``area``. Raises :class:`~enginehost.errors.TooLarge`."""
    if type(payload) is not bytes and isinstance(payload, Parted):
        kind |= PARTS
        payload = area.joined(payload)
    length = len(payload)
    if length > MOST_BYTES:
        raise TooLarge("a message between host and worker", limit=MOST_BYTES, size=length)
    return _pack_header(length, kind, call_id) + payload


Frame = tuple[int, int, bytes]
"""Kind, call id, payload."""

BUFFER_BYTES = 256 * 1024
"""How much is read at once. (Into a buffer that stays: memory of this size that is asked for anew each time
costs more than the rest of a small call.)"""


class FrameBuffer:
    """Cuts frames out of bytes as they come.

    Read into :meth:`room`, then say how many bytes came: :meth:`filled` answers the frames that are whole.
    """

    __slots__ = ("_area", "_buffer", "_filled", "_view")

    def __init__(self, area: Area = NOWHERE) -> None:
        self._area = area
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._view[self._filled :] if self._filled else self._view

    def filled(self, count: int) -> list[Frame]:
        """So many bytes came. Raises :class:`MalformedFrame`."""
        end = self._filled + count
        if end >= HEADER.size:
            length, kind, call_id = HEADER.unpack_from(self._buffer)
            if HEADER.size + length == end:  # one whole frame, as nearly always
                self._filled = 0
                payload = bytes(self._view[HEADER.size : end])
                if end > BUFFER_BYTES:
                    self._keep(end, end, BUFFER_BYTES)
                return [(kind, call_id, payload) if kind < PARTS else self._parted(kind, call_id, payload)]
        return self._cut(end)

    def _cut(self, end: int) -> list[Frame]:
        frames: list[Frame] = []
        start, needed = 0, 0
        while end - start >= HEADER.size:
            length, kind, call_id = HEADER.unpack_from(self._buffer, start)
            if length > MOST_BYTES:
                raise MalformedFrame(f"a frame of {length} bytes")
            body, needed = start + HEADER.size, HEADER.size + length
            if end - body < length:
                break
            start, needed = body + length, 0
            payload = bytes(self._view[body:start])
            frames.append((kind, call_id, payload) if kind < PARTS else self._parted(kind, call_id, payload))
        self._keep(start, end, max(BUFFER_BYTES, needed))
        return frames

    def _parted(self, kind: int, call_id: int, payload: bytes) -> Frame:
        return kind & ~PARTS, call_id, self._area.parted(payload)

    def _keep(self, start: int, end: int, size: int) -> None:
        """Move the begun frame to the front of a buffer that holds it whole."""
        if size != len(self._buffer):
            buffer = bytearray(size)
            buffer[: end - start] = self._view[start:end]
            self._buffer, self._view = buffer, memoryview(buffer)
        elif start and start < end:
            self._buffer[: end - start] = self._buffer[start:end]
        self._filled = end - start

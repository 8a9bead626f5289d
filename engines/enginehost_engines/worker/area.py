"""Memory that host and worker share, for the large parts of values: arrays, and bytes.

Each direction has a ring. The sender copies a part in and says where it is in the frame; the receiver copies
it out as soon as it has read the frame, and moves the mark up to which the sender may write again. Where
there is no such memory, or no room in it, parts travel in the frame itself.

The receiver believes nothing that the other side wrote: it only ever reads inside the ring.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress

from enginehost.values import Parted

RING_BYTES = 8 * 1024 * 1024
"""Of each direction; pages that were never written take no memory."""

_MARK = struct.Struct("<Q")
_NUMBER = struct.Struct("<I")
_NUMBER_AT = 32
_DATA = 64
"""Where the data of a ring begin: behind the mark, and apart from it in the processor's caches."""

_HEAD = struct.Struct("<II")
"""Length of the JSON text, number of parts."""
_PART = struct.Struct("<QQ?")
"""Where a part is in the ring (all ones: in the frame), its length, whether its reader may change it."""
_IN_FRAME = 2**64 - 1


class MalformedFrame(Exception):
    """The other side does not speak our language."""


class _Ring:
    """One direction. ``taken`` and ``put`` count bytes from the beginning, skipped ones too."""

    def __init__(self, shared: mmap.mmap, start: int) -> None:
        with memoryview(shared) as whole:
            self._view = whole[start : start + RING_BYTES]
        self._size = RING_BYTES - _DATA
        self._put = 0
        self._free = 0
        """Up to where the sender knows that all was taken."""

    def release(self) -> None:
        """Let the memory go."""
        self._view.release()

    def mark(self, number: int) -> None:
        """Leave a number for the other side."""
        _NUMBER.pack_into(self._view, _NUMBER_AT, number)

    @property
    def marked(self) -> int:
        """The number that the other side left."""
        return _NUMBER.unpack_from(self._view, _NUMBER_AT)[0]

    def place(self, part: bytes | bytearray | memoryview) -> int | None:
        """Copy a part in: where it is, or ``None`` where there is no room."""
        size, put = len(part), self._put
        self._free = max(self._free, min(_MARK.unpack_from(self._view)[0], put))
        start = put % self._size
        if start and (self._free == put or start + size > self._size):
            put += self._size - start  # from the front again: all is free, or the end is too short
            if self._free == self._put:
                self._free = put
        if put + size - self._free > self._size:
            return None
        at = _DATA + put % self._size
        self._view[at : at + size] = part
        self._put = put + size
        return put

    def take(self, at: int, size: int, changeable: bool) -> bytes | bytearray:
        """Copy a part out. Raises :class:`MalformedFrame`."""
        start = at % self._size
        if start + size > self._size:
            raise MalformedFrame("a part that is outside the shared memory")
        with self._view[_DATA + start : _DATA + start + size] as view:
            part = bytearray(view) if changeable else bytes(view)
        _MARK.pack_into(self._view, 0, min(at + size, _IN_FRAME))
        return part


class Area:
    """Both rings, as one side sees them; without any memory, all parts travel in the frames."""

    def __init__(
        self, shared: mmap.mmap | None = None, out: _Ring | None = None, into: _Ring | None = None
    ) -> None:
        self._shared = shared
        self._out = out
        self._into = into

    @classmethod
    def of(cls, fd: int, *, host: bool) -> Area:
        """The area behind a descriptor, which is closed. (Negative: there is none.)"""
        if fd < 0:
            return cls()
        try:
            shared = mmap.mmap(fd, 2 * RING_BYTES)
        except OSError:
            return cls()
        finally:
            os.close(fd)
        first, second = (_Ring(shared, start) for start in (0, RING_BYTES))
        return cls(shared, first, second) if host else cls(shared, second, first)

    def begin(self, call_id: int) -> None:
        """Tell the other side, even if this one dies now, that a call has begun."""
        if self._out is not None:
            self._out.mark(call_id)

    @property
    def begun(self) -> int | None:
        """The last call that the other side began (0: none); ``None`` where nobody can know."""
        return self._into.marked if self._into is not None else None

    def close(self) -> None:
        """Let the memory go."""
        for ring in (self._out, self._into):
            if ring is not None:
                ring.release()
        self._out = self._into = None
        if self._shared is not None:
            self._shared.close()

    def joined(self, payload: Parted) -> bytes:
        """The payload of a frame: JSON text, and its parts or where they are."""
        pieces: list[bytes | bytearray | memoryview] = [_HEAD.pack(len(payload), len(payload.parts))]
        inside: list[bytes | bytearray | memoryview] = []
        for part, changeable in payload.parts:
            at = self._out.place(part) if self._out is not None else None
            if at is None:
                inside.append(part)
            pieces.append(_PART.pack(_IN_FRAME if at is None else at, len(part), changeable))
        return b"".join([*pieces, payload, *inside])

    def parted(self, payload: bytes) -> Parted:
        """The inverse of :meth:`joined`. Raises :class:`MalformedFrame`."""
        try:
            return self._parted(memoryview(payload))
        except struct.error as error:
            raise MalformedFrame("a frame that ends within its parts") from error

    def _parted(self, payload: memoryview) -> Parted:
        length, count = _HEAD.unpack_from(payload)
        text = _HEAD.size + count * _PART.size
        inside = text + length
        parts: list[tuple[bytes | bytearray | memoryview, bool]] = []
        for index in range(count):
            at, size, changeable = _PART.unpack_from(payload, _HEAD.size + index * _PART.size)
            part: bytes | bytearray
            if at == _IN_FRAME:
                if inside + size > len(payload):
                    raise MalformedFrame("a part that is longer than its frame")
                view = payload[inside : inside + size]
                part, inside = (bytearray(view) if changeable else bytes(view)), inside + size
            elif self._into is None:
                raise MalformedFrame("a part in shared memory that does not exist")
            else:
                part = self._into.take(at, size, changeable)
            parts.append((part, changeable))
        if text + length > len(payload):
            raise MalformedFrame("a text that is longer than its frame")
        return Parted(payload[text : text + length], parts)


NOWHERE = Area()


def new_area() -> int:
    """A descriptor of memory for one worker, which neither side can cut short; -1 where there is none."""
    if not hasattr(os, "memfd_create"):
        return -1
    import fcntl

    try:
        fd = os.memfd_create("enginehost-worker", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return -1
    try:
        os.truncate(fd, 2 * RING_BYTES)
        with suppress(AttributeError):  # seals came to Python later
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(fd)
        return -1
    return fd

"""Items of a stream on their way from a worker: each at once, or in pieces where they come quickly."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from enginehost.values import Parted
from enginehost_engines.worker.wire import WINDOW

HELD_SECONDS = 0.0002
"""How long the first item of a piece waits for others."""

_QUICK_SECONDS = 0.0001
_QUICK_ITEMS = 16
"""So many items that came so quickly after one another, and further ones are expected to."""

_MOST_BYTES = 64 * 1024


class Batch:
    """The items that are ready, packed; ``send`` sends them as the payload of one ITEMS frame.

    ``room`` is how many more the reader has asked for.
    """

    __slots__ = ("_held", "_last", "_quick", "_send", "_size", "room", "since")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._held: list[bytes] = []
        self._size = 0
        self._last = 0.0
        self._quick = 0
        self.since = 0.0
        """When the first of those that are held came."""
        self.room = WINDOW

    def add(self, item: bytes) -> bool:
        """One more item; whether it is held until :meth:`flush`."""
        self.room -= 1
        if isinstance(item, Parted):
            self.flush()
            self._send(Parted(b"[" + item + b"]", item.parts))
            return False
        now = perf_counter()
        self._quick = self._quick + 1 if now - self._last < _QUICK_SECONDS else 0
        self._last = now
        if not self._held:
            self.since = now
        self._held.append(item)
        self._size += len(item)
        if (
            self._quick < _QUICK_ITEMS
            or not self.room
            or now - self.since >= HELD_SECONDS
            or self._size >= _MOST_BYTES
        ):
            self.flush()
            self._last = perf_counter()  # what sending takes is not the function's time
            return False
        return True

    @property
    def holds(self) -> bool:
        """Whether items wait to be sent."""
        return bool(self._held)

    def flush(self) -> None:
        """Send what is held."""
        if self._held:
            held, self._held, self._size = self._held, [], 0
            self._send(b"[" + b",".join(held) + b"]")

"""Signed requests count once, however often their bytes arrive: exactly, and whatever clocks say.

A requester numbers its signed requests to one host from 1. The host keeps, for each start of a requester,
the highest number and which of the :data:`WINDOW` below it are still out: requests may overtake each
other. Its own restart needs nothing: a signature names the start of the host that was meant.

An incarnation begins with the time of its start, by the requester's own clock. Where more starts are to be
remembered than may be, that of the key's earliest idle one is forgotten, and from then on no unknown one of
that key counts that is not later: so none that was forgotten can come again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from enginehost.databus.metadata import is_incarnation
from enginehost.errors import Overloaded, Unauthorized

WINDOW = 4_096
"""How far behind the highest number a request may come."""

SENDERS = 65_536
"""Starts of requesters that are remembered."""

IDLE_SECONDS = 600.0
"""How long a requester's start is remembered at least after its latest request."""

RETRY_AFTER = 60.0

_TIME_DIGITS = 12
"""Hexadecimal digits of an incarnation that say when it began (``identity.py``)."""


class Replays:
    """The numbers that were seen. ``admit`` is for requests whose signature has been verified, no others."""

    def __init__(
        self, *, window: int = WINDOW, senders: int = SENDERS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._window = window
        self._senders = senders
        self._whole = (1 << window) - 1
        self._now = now
        self._highest: dict[tuple[str, str], int] = {}
        self._latest: dict[tuple[str, str], float] = {}
        """When the latest request of each came; the one that has been idle for longest stands first."""
        self._floor: dict[str, str] = {}
        """By key: unknown starts that are not later than this do not count any more."""
        self._missing: dict[tuple[str, str], int] = {}
        """Bit i: the number i below the highest has not come. Only where there are any."""

    def __len__(self) -> int:
        """Starts of requesters that are remembered."""
        return len(self._highest)

    def admit(self, key_id: str, sender: str, seq: int) -> None:
        """Note number ``seq`` of the requester that was started as ``sender`` and signs with this key.

        Raises :class:`Unauthorized` (``replayed``) for one that has been noted, or is too old to tell, and
        :class:`Overloaded` for a further requester where all that are remembered are busy.
        """
        who = (key_id, sender)
        highest = self._highest.get(who)
        if highest is None:
            if _start(sender) <= self._floor.get(key_id, ""):
                raise _replayed()
            if len(self._highest) >= self._senders:
                self._forget_one()
            highest = 0
        if seq > highest:
            self._advance(who, highest, seq)
        else:
            self._fill(who, highest - seq)
        self._latest.pop(who, None)
        self._latest[who] = self._now()

    def _forget_one(self) -> None:
        who, since = next(iter(self._latest.items()))
        if self._now() - since < IDLE_SECONDS:
            raise Overloaded(
                f"this host remembers {self._senders} requesters, and all have signed requests lately",
                retry_after=RETRY_AFTER,
            )
        key_id, sender = who
        self._floor[key_id] = max(_start(sender), self._floor.get(key_id, ""))
        del self._highest[who], self._latest[who]
        self._missing.pop(who, None)

    def _advance(self, who: tuple[str, str], highest: int, seq: int) -> None:
        self._highest[who] = seq
        step = min(seq - highest, self._window)
        missing = self._missing.pop(who, 0)
        if step > 1 or missing:
            # a jump leaves holes at 1 … step - 1; what falls out of the window is too old
            holes = (1 << step) - 2 if seq - highest <= self._window else self._whole - 1
            missing = ((missing << step) | holes) & self._whole
            if missing:
                self._missing[who] = missing

    def _fill(self, who: tuple[str, str], below: int) -> None:
        missing = self._missing.get(who, 0)
        if below >= self._window or not missing >> below & 1:
            raise _replayed()
        missing &= ~(1 << below)
        if missing:
            self._missing[who] = missing
        else:
            del self._missing[who]


def _start(sender: str) -> str:
    """What of an incarnation can be ordered by time; the least there is for one that is not of our form."""
    return sender[:_TIME_DIGITS] if is_incarnation(sender) else "0"


def _replayed() -> Unauthorized:
    message = "this request has been here already, or is too old to tell; send a new one"
    return Unauthorized(message, detail={"reason": "replayed"})

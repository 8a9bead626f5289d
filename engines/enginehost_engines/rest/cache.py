"""Answers kept for a while (``CACHE_SECONDS``), and asked for again only where they changed.

One cache per event loop, for all engines together, bounded in bytes; what was not used for the longest time
goes first. Each engine reads its own entries only: its credentials are its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from enginehost_engines.rest.response import Answer

if TYPE_CHECKING:
    from enginehost_engines.rest.request import Headers, Message

MOST_BYTES = 64 * 2**20
"""What all answers may take together."""

MOST_OF_ONE = 8 * 2**20
"""What one answer may take; a larger one is not kept."""

_OVERHEAD = 1024
_NOT_MODIFIED = 304
_PARTIAL = 206
_UPDATED = ("cache-control", "date", "age", "expires", "etag", "last-modified", "vary")
_OWN_CONDITIONS = frozenset(
    [
        *(b"if-none-match", b"if-modified-since", b"if-match", b"if-unmodified-since", b"if-range", b"range"),
        b"cache-control",
    ]
)

Key = tuple[object, str, bytes, "Headers", bytes]
Fetch = Callable[["Headers"], Awaitable[Answer]]
"""Asks the service, with further headers."""

Remaining = Callable[[], float | None]


@dataclass(slots=True)
class _Entry:
    answer: Answer
    fresh_until: float
    size: int


@dataclass(slots=True)
class _Flight:
    """A request on its way, for all who ask for the same meanwhile."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Answer | None = None
    abandoned: bool = False


class Cache:
    """Answers by engine, method, address, headers and body."""

    def __init__(self, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most_bytes
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._flights: dict[Key, _Flight] = {}
        self.size = 0

    @classmethod
    def here(cls) -> Cache:
        """The cache of this event loop."""
        return _caches.setdefault(asyncio.get_running_loop(), cls())

    def forget(self, owner: object) -> None:
        """Let go of everything that an engine kept."""
        for key in [key for key in self._entries if key[0] is owner]:
            self._drop(key)

    async def answer(
        self, owner: object, message: Message, seconds: float, fetch: Fetch, remaining: Remaining
    ) -> Answer:
        """The answer that is kept, else what ``fetch`` brings: one fetch for all who ask at once.

        Raises what ``fetch`` raises. Where the one that fetches is cancelled or has no time left
        (``remaining``, seconds), another of those who wait takes its place; where its answer may not be
        shared, or the service fails, each fetches for itself.
        """
        if any(name.lower() in _OWN_CONDITIONS for name, _ in message.headers):
            return await fetch(())
        key: Key = (owner, message.method, message.target, message.headers, message.body)
        while True:
            entry = self._entries.get(key)
            if entry is not None and entry.fresh_until > self._clock():
                self._entries.move_to_end(key)
                return entry.answer
            flight = self._flights.get(key)
            if flight is None:
                return await self._fly(key, entry, seconds, fetch, remaining)
            await flight.ended.wait()
            if flight.answer is not None:
                return flight.answer
            if not flight.abandoned:
                return (await self._fetched(key, entry, seconds, fetch))[0]

    async def _fly(
        self, key: Key, entry: _Entry | None, seconds: float, fetch: Fetch, remaining: Remaining
    ) -> Answer:
        flight = self._flights[key] = _Flight()
        try:
            answer, shared = await self._fetched(key, entry, seconds, fetch)
            flight.answer = answer if shared else None
            return answer
        except BaseException as error:
            flight.abandoned = isinstance(error, asyncio.CancelledError) or remaining() == 0.0
            raise
        finally:
            del self._flights[key]
            flight.ended.set()

    async def _fetched(
        self, key: Key, entry: _Entry | None, seconds: float, fetch: Fetch
    ) -> tuple[Answer, bool]:
        """The answer of the service, or the old one that still holds; whether others may have it."""
        conditions = _conditions(entry.answer.headers) if entry is not None else ()
        answer = await fetch(conditions)
        if answer.status == _NOT_MODIFIED and entry is not None:
            answer = _renewed(entry.answer, answer.headers)
        life = lifetime(answer, seconds)
        self._drop(key)
        if life is not None:
            self._keep(key, answer, life)
        return answer, life is not None

    def _keep(self, key: Key, answer: Answer, life: float) -> None:
        if life <= 0 and not _conditions(answer.headers):
            return
        headers = sum(len(name) + len(value) for name, value in answer.headers.items())
        size = len(answer.body) + headers + len(key[2]) + len(key[4]) + _OVERHEAD
        if size > min(MOST_OF_ONE, self._most):
            return
        self._entries[key] = _Entry(answer, self._clock() + life, size)
        self.size += size
        while self.size > self._most:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry.size


_caches: WeakKeyDictionary[asyncio.AbstractEventLoop, Cache] = WeakKeyDictionary()


def lifetime(answer: Answer, seconds: float) -> float | None:
    """How long the answer may be used without asking; ``None``: it may not be kept.

    At most ``seconds``, and not longer than the service says (RFC 9111, 3, 4.2 and 5.2.2).
    """
    said = _directives(answer.headers.get("cache-control", ""))
    if answer.status == _PARTIAL or "no-store" in said or "*" in answer.headers.get("vary", ""):
        return None
    if "no-cache" in said:
        return 0.0
    longest = _max_age(said["max-age"]) if "max-age" in said else _expires(answer.headers)
    return (
        seconds
        if longest is None
        else max(0.0, min(seconds, longest - _max_age(answer.headers.get("age", ""))))
    )


def _directives(header: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in header.split(","))
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _max_age(text: str) -> float:
    text = text.strip()
    return float(int(text[:10])) if text.isascii() and text.isdigit() else 0.0


def _expires(headers: Mapping[str, str]) -> float | None:
    """Seconds until ``Expires``; one that is no date has passed."""
    if "expires" not in headers:
        return None
    try:
        ends = parsedate_to_datetime(headers["expires"]).timestamp()
        return ends - _date(headers)
    except (ValueError, OverflowError, OSError):
        return 0.0


def _date(headers: Mapping[str, str]) -> float:
    return parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else time.time()


def _conditions(headers: Mapping[str, str]) -> Headers:
    """The headers that ask for the answer only where it changed; none where it has no mark."""
    pairs = ((b"If-None-Match", "etag"), (b"If-Modified-Since", "last-modified"))
    found = ((name, headers.get(mark, "")) for name, mark in pairs)
    return tuple((name, text.encode()) for name, text in found if text and text.isascii())


def _renewed(old: Answer, headers: Mapping[str, str]) -> Answer:
    """The old answer with what the service says of it now."""
    kept = {name.lower(): value for name, value in old.headers.items()}
    kept.pop("age", None)
    return Answer(old.status, kept | {n: headers[n] for n in _UPDATED if n in headers}, old.body)

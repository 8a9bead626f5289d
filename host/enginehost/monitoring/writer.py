"""Writes what is seen of chains into the database, on a thread of its own that nobody waits for."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from enginehost.monitoring.database import DAY, close_lost, retire, write
from enginehost.monitoring.decisions import settle
from enginehost.monitoring.seen import Seen
from enginehost.store.connecting import database_of
from enginehost.store.link import Database, Fault, Link

MOST_WAITING = 100_000
"""Sights that may wait; further ones are dropped and counted."""
BATCH = 10_000
PAUSE = 0.1
"""Seconds in which sights come together before they are written."""
_RETIRE_SECONDS = 3_600.0
_CLOSE_SECONDS = 10.0

_log = logging.getLogger("enginehost.monitoring")

Make = Callable[[Any], Iterable[Seen]]
"""Makes sights of what was put in, on the thread that writes."""


class ChainWriter:
    """From :meth:`open` to :meth:`close`. ``days``: for how long chains are kept; ``None``: for ever.

    What cannot be written (a full disk, a locked file) is dropped and counted; the log says so once, and
    once more when it is over.
    """

    def __init__(self, url: str, *, days: float | None, lock_timeout: float = 5.0) -> None:
        self.recorded = 0
        self.dropped = 0
        self._url, self._days, self._lock_timeout = url, days, lock_timeout
        self._queue: deque[tuple[Make, Any]] = deque()
        self._stopping = threading.Event()
        self._failed = 0
        self._retire_at = 0.0
        self._link: Link | None = None
        self._thread = threading.Thread(target=self._run, name="enginehost-chains", daemon=True)
        self._database: Database

    def open(self) -> None:
        """Connect, bring the schema up to date, and begin. Raises :class:`~enginehost.errors.ConfigError`."""
        self._database = database_of(self._url, synchronous="normal", lock_timeout=self._lock_timeout)
        self._database.upgrade()
        self._thread.start()

    def put(self, make: Make, what: Any) -> None:
        """Take something to be written, at once and from any thread."""
        if len(self._queue) >= MOST_WAITING or self._stopping.is_set():
            self.dropped += 1
        else:
            self._queue.append((make, what))

    def close_lost(self, host: str, start: str) -> None:
        """Steps of earlier starts of a host have ended, unseen. Before anything is put in."""
        self._try(lambda link: close_lost(self._database, link, host, start), 0)

    def close(self) -> None:
        """Write what waits, as far as that is possible, and let go."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def describe(self) -> Mapping[str, int]:
        """How many sights were recorded, and how many dropped."""
        return {"recorded": self.recorded, "dropped": self.dropped}

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE):
            self._write_all()
            self._retire()
        self._write_all()
        self._let_go()

    def _write_all(self) -> None:
        while self._queue:
            taken = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            self._try(lambda link, taken=taken: self._write(link, taken), len(taken))

    def _write(self, link: Link, taken: list[tuple[Make, Any]]) -> None:
        seen = list(_made(taken))
        write(self._database, link, seen)
        settle(self._database, link, seen)

    def _retire(self) -> None:
        if self._days is None or time.monotonic() < self._retire_at:
            return
        self._retire_at = time.monotonic() + _RETIRE_SECONDS
        before = time.time() - self._days * DAY
        self._try(lambda link: retire(self._database, link, before), 0)

    def _try(self, work: Callable[[Link], None], count: int) -> None:
        try:
            if self._link is None:
                self._link = self._database.writer()
            work(self._link)
        except Exception as error:  # noqa: BLE001 - whatever it is, the host goes on and so does this thread
            self._lost(error, count)
        else:
            self.recorded += count
            if self._failed:
                _log.warning("chains are recorded again; %d events were lost", self._failed)
                self._failed = 0

    def _lost(self, error: Exception, count: int) -> None:
        self.dropped += count
        if not self._failed:
            fault = self._database.fault(error)
            reason = f"the database is {fault}" if fault in _SAID else type(error).__name__
            _log.error("chains cannot be recorded (%s); events are dropped", reason)
        self._failed += max(1, count)
        self._let_go()

    def _let_go(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with suppress(Exception):  # it may be broken, which is why it is let go
                link.close()


_SAID = (Fault.LOST, Fault.LOCKED, Fault.FULL, Fault.BROKEN)


def _made(taken: list[tuple[Make, Any]]) -> Iterable[Seen]:
    for make, what in taken:
        try:
            yield from make(what)
        except Exception:  # noqa: BLE001 - one that cannot be told takes no other with it
            _log.debug("a step could not be recorded", exc_info=True)

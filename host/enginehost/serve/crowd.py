"""Bounds the connections of a server: they are open files, which the host itself needs too."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from enginehost.errors import Overloaded

_LOOKS = 100
"""Connections that are looked at for one that can give way; so a full server stays quick."""
_TELL_SECONDS = 60.0
"""Between two lines in the log that the server is full."""

_log = logging.getLogger("enginehost.http")


class Connection(Protocol):
    """What the crowd asks of a connection."""

    @property
    def asked(self) -> bool:
        """Whether a request has come, of which the head is complete."""
        ...

    @property
    def answering(self) -> bool:
        """Whether an answer is due."""
        ...

    def give_way(self) -> None:
        """Close: another one needs the place."""
        ...


class Crowd:
    """At most ``most`` connections. Beyond, one to which no answer is due gives way to who comes.

    First the one that has waited longest without ever completing a request, then those that wait for
    another: whoever opens connections and asks nothing keeps out nobody who asks.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fresh: dict[Connection, None] = {}
        """Those that have not been seen to ask, in order of arrival."""
        self._served: dict[Connection, None] = {}
        self._told = float("-inf")

    def __len__(self) -> int:
        return len(self._fresh) + len(self._served)

    def enter(self, connection: Connection) -> None:
        """Take one in. Raises :class:`Overloaded` where every other one has work in hand."""
        if len(self) >= self._most:
            self._tell()
            self._make_room()
        self._fresh[connection] = None

    def leave(self, connection: Connection) -> None:
        """One has ended."""
        self._fresh.pop(connection, None)
        self._served.pop(connection, None)

    def _make_room(self) -> None:
        found = self._waiting_longest() or self._between_requests()
        if found is None:
            raise Overloaded(f"the host has {self._most} connections, and all are busy")
        self.leave(found)
        found.give_way()

    def _waiting_longest(self) -> Connection | None:
        while self._fresh:
            first = next(iter(self._fresh))
            if not first.asked:
                return first
            del self._fresh[first]
            self._served[first] = None
        return None

    def _between_requests(self) -> Connection | None:
        for _ in range(min(_LOOKS, len(self._served))):
            first = next(iter(self._served))
            if not first.answering:
                return first
            del self._served[first]  # to the end: another one is looked at next time
            self._served[first] = None
        return None

    def _tell(self) -> None:
        now = time.monotonic()
        if now >= self._told + _TELL_SECONDS:
            self._told = now
            _log.warning(
                "HTTP has %d connections, and takes no more at once (http.max_connections, open files): "
                "those without a request are closed",
                self._most,
            )


def most_connections(wanted: int) -> int:
    """``wanted``, but no more than half of the files that this process may open."""
    return min(wanted, _open_files() // 2)


def backlog(most: int) -> int:
    """How many connections may wait to be accepted: a server takes all that wait before it looks at one."""
    return max(1, min(2048, most // 4))


def _open_files() -> int:
    try:
        import resource
    except ImportError:  # Windows knows no such limit
        return 1 << 31
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 31

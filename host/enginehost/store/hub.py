"""Who follows which session in this process, and what was just committed for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from enginehost.store.batch import Change

_MOST = 512
"""Changes that wait for a slow subscriber; it reads the database then."""


class Subscriber:
    """One that follows a session, at its own pace."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.changes: deque[Change] = deque()
        self.behind = True
        """The database has something that did not come this way."""
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        """Runs over many waits: one that began and ended with each would cost more than the waiting."""

    def push(self, change: Change) -> None:
        """Something was committed."""
        if len(self.changes) >= _MOST:
            self.changes.clear()
            self.behind = True
        self.changes.append(change)
        self.wake()

    def look(self) -> None:
        """Something may have been committed elsewhere."""
        self.behind = True
        self.wake()

    def wake(self) -> None:
        """Let it go on."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait for the next thing; ``False`` where nothing came."""
        if self.behind or self.changes:
            return True
        loop = asyncio.get_running_loop()
        self._until = loop.time() + seconds
        if self._timer is None or self._timer.when() > self._until:
            self.leave()
            self._timer = loop.call_later(seconds, self._look_at_the_clock)
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        return self.behind or bool(self.changes)

    def leave(self) -> None:
        """It waits no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_the_clock(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        loop = asyncio.get_running_loop()
        left = self._until - loop.time()
        if left > 0.0:
            self._timer = loop.call_later(left, self._look_at_the_clock)
        else:
            self.wake()


class Hub:
    """All subscribers of a store, by session."""

    def __init__(self) -> None:
        self._by_session: dict[str, set[Subscriber]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_session)

    def join(self, session: str) -> Subscriber:
        """A new subscriber: from now on it is told."""
        one = Subscriber(session)
        self._by_session.setdefault(session, set()).add(one)
        return one

    def leave(self, one: Subscriber) -> None:
        """It follows no more."""
        one.leave()
        others = self._by_session[one.session]
        others.discard(one)
        if not others:
            del self._by_session[one.session]

    def deliver(self, changes: Iterable[Change]) -> None:
        """Give what was committed to those who follow it."""
        for change in changes:
            for one in self._by_session.get(change.session, ()):
                one.push(change)

    def look(self, sessions: Iterable[str] | None = None) -> None:
        """Others have committed something: to these sessions, or nobody knows to which."""
        for session in list(self._by_session) if sessions is None else sessions:
            for one in self._by_session.get(session, ()):
                one.look()

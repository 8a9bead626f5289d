"""A server that is kept connected: lost, it is tried again, later and later, until it is there."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehost.errors import EngineUnavailable
from enginehost_engines.mcp.config import McpConfig

if TYPE_CHECKING:
    from enginehost_engines.mcp.session import Session

FIRST_PAUSE = 0.5
STEADY_SECONDS = 30.0
"""A session that lasted so long ends a row of failures."""

START_SECONDS = 60.0
"""How long a server that is tried again may take to be ready; at first the host's open_timeout counts."""

LEAVE_SECONDS = 1.0
"""How long calls of a session that is over may take to notice."""


class Pauses:
    """How long to wait before the next attempt: a random part of a time that doubles with each failure.

    (So that many hosts do not come back to a server at the same moment.)
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._next = min(FIRST_PAUSE, longest)

    def after(self, lasted: float) -> float:
        """Seconds to wait after a session that stood for ``lasted`` seconds (0: none came about)."""
        if lasted >= STEADY_SECONDS:
            self._next = min(FIRST_PAUSE, self._longest)
        pause, self._next = self._next, min(2 * self._next, self._longest)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Connection:
    """Owns the session with one server.

    ``up`` hears (and is waited for) that there is a session, or that its tools changed; ``down``, with the
    reason, that there is none any more, or again that none came about.
    """

    def __init__(
        self,
        config: McpConfig,
        folder: Path,
        log: logging.Logger,
        *,
        private_networks: bool,
        up: Callable[[Session], Awaitable[None]],
        down: Callable[[str], None],
    ) -> None:
        self._config = config
        self._folder = folder
        self._log = log
        self._private_networks = private_networks
        self._up = up
        self._down = down
        self._older = False
        """Whether the server wants to be spoken to as older ones do."""
        self._settled = False
        """Whether that is known."""
        self._keeper: asyncio.Task[None] | None = None
        self.session: Session | None = None
        self.reason = "it is not connected yet"

    async def open(self) -> None:
        """Connect for the first time. Raises ``EngineUnavailable``; then nothing is left of the attempt.

        Cancelled, it leaves that to :meth:`close`.
        """
        # a second's work, which must not hold the event loop
        await asyncio.to_thread(importlib.import_module, "enginehost_engines.mcp.session")
        loop = asyncio.get_running_loop()
        first: asyncio.Future[None] = loop.create_future()
        self._keeper = loop.create_task(self._keep(first), name="enginehost-mcp")
        try:
            await asyncio.wait({first, self._keeper}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._keeper.cancel()  # close() waits for it: ending a server takes longer than this may
            raise
        if not first.done():
            await self._keeper  # it says what went wrong
        self._settled = True

    async def close(self) -> None:
        """Let go of the server; what is on its way there has an unknown outcome."""
        if self._keeper is not None:
            if not self._keeper.cancelling():
                self._keeper.cancel()
            await asyncio.wait({self._keeper})

    async def _keep(self, first: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        pauses = Pauses(self._config.mcp_reconnect_seconds)
        while True:
            since: list[float] = []

            def stands(since: list[float] = since) -> None:
                since.append(loop.time())
                if not first.done():
                    first.set_result(None)

            self.reason = await self._one_session(stands, None if not first.done() else START_SECONDS)
            if not since and not self._settled and not first.done():
                self._older, self._settled = True, True
                first_reason = self.reason
                self.reason = await self._one_session(stands, None)
                if not since:  # what the newer way said is what servers of today say
                    self.reason = first_reason
            if not first.done():
                raise EngineUnavailable(self.reason, reason=self.reason)
            self._down(self.reason)
            await asyncio.sleep(pauses.after(loop.time() - since[0] if since else 0.0))

    async def _one_session(self, stands: Callable[[], None], seconds: float | None) -> str:
        """Try to have a session, and stay with it until it is over; why it is."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._live(ready, stands), name="enginehost-mcp-session")
        try:
            await asyncio.wait({task, ready}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not ready.done():
                return f"the server was not ready within {seconds:g} s"
            await asyncio.wait({task})
        finally:
            self.session = None
            task.cancel()
            await asyncio.wait({task})
        return "the session was given up" if task.cancelled() else task.result()

    async def _live(self, ready: asyncio.Future[None], stands: Callable[[], None]) -> str:
        from enginehost_engines.mcp.session import Lost, connected, told

        over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        calls: set[asyncio.Task[Any]] = set()

        def lost(reason: str) -> None:
            if not over.done():
                over.set_result(reason)

        async def follow(session: Session) -> None:
            try:
                await session.follow(lambda: self._up(session))
            except BaseExceptionGroup as error:
                lost(told(error))
            except Lost as error:
                lost(str(error))

        try:
            async with connected(
                self._config,
                self._folder,
                self._log,
                older=self._older,
                private_networks=self._private_networks,
                lost=lost,
                called=calls,
            ) as session:
                await self._up(session)
                self.session = session
                ready.set_result(None)
                stands()
                following = asyncio.create_task(follow(session), name="enginehost-mcp-news")
                try:
                    await over
                finally:
                    self.session = None
                    following.cancel()
                    await asyncio.wait({following})
        except Exception as error:  # noqa: BLE001 - the libraries of the way raise what they like
            self._log.debug("no session with the MCP server (any more)", exc_info=True)
            # where the transport knows why, the library only knows that
            return over.result() if over.done() else told(error)
        finally:
            await self._leave(calls)
        return over.result()

    async def _leave(self, calls: set[asyncio.Task[Any]]) -> None:
        """See that no call stays behind."""
        if calls:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(set(calls), timeout=LEAVE_SECONDS)
        for task in calls:
            task.cancel()

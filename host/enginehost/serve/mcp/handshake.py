"""What a client said of itself in its handshake, for the revisions that have one.

Over HTTP the client carries it as its session id: sealed, so that any host that shares the key can read it.
What came later (subscriptions, a level) stays with the host that heard it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from enginehost.caller import Caller
from enginehost.questions import METHODS
from enginehost.serve.mcp.seal import Unsealed

if TYPE_CHECKING:
    from enginehost.serve.mcp.seal import Seal

MOST_KNOWN = 10_000
MOST_SUBSCRIPTIONS = 1_000
"""Resources that one client may follow at once."""
_SECONDS = 30 * 86_400.0
FIRST_LEVEL = "info"
"""From which level on a client is told what functions say, unless it says another one."""


@dataclass(slots=True, eq=False)
class Handshake:
    """One client. ``heard_by`` are set when its subscriptions have changed."""

    id: str
    capabilities: Mapping[str, Any]
    level: str = FIRST_LEVEL
    subscriptions: set[str] = field(default_factory=set[str])
    heard_by: set[asyncio.Event] = field(default_factory=set[asyncio.Event])

    def subscribe(self, uri: str) -> bool:
        """Follow a resource; ``False`` where these are too many."""
        if len(self.subscriptions) >= MOST_SUBSCRIPTIONS:
            return False
        self.subscriptions.add(uri)
        self._wake()
        return True

    def unsubscribe(self, uri: str) -> None:
        """Follow a resource no more."""
        self.subscriptions.discard(uri)
        self._wake()

    def _wake(self) -> None:
        for event in self.heard_by:
            event.set()


class Handshakes:
    """The clients of one host over HTTP."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._known: OrderedDict[tuple[str, str, str], Handshake] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()

    async def begin(self, caller: Caller, capabilities: Mapping[str, Any]) -> str:
        """The session id of a client that ``caller`` uses."""
        kinds = [kind for kind in METHODS if kind in capabilities]
        told = {"session": uuid4().hex, "who": [caller.subject, caller.tenant], "asks": kinds}
        return await self._seal.seal(told, _SECONDS)

    async def of(self, session: str, caller: Caller) -> Handshake | None:
        """The client of a session id; ``None`` where it is none of ours, is over, or is somebody else's."""
        key = session, caller.subject, caller.tenant
        known = self._known.get(key)
        if known is not None:
            return known
        try:
            told = await self._seal.open(session)
        except Unsealed:
            return None
        if not isinstance(told, dict) or told.get("who") != [caller.subject, caller.tenant]:
            return None
        if told.get("session") in self._over:
            return None
        found = self._known[key] = Handshake(told["session"], {kind: {} for kind in told["asks"]})
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return found

    async def end(self, session: str, caller: Caller) -> bool:
        """Forget a session; whether there was one."""
        found = await self.of(session, caller)
        if found is None:
            return False
        self._known.pop((session, caller.subject, caller.tenant), None)
        self._over[found.id] = None
        if len(self._over) > MOST_KNOWN:
            self._over.popitem(last=False)
        return True

"""Hears what changes in a host, and tells those who listen: once for all that came together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from enginehost.agents.agent_engine import agent_behind
from enginehost.agents.identity import owner_of
from enginehost.catalog import Entry
from enginehost.llm.message import Status
from enginehost.serve.mcp.messages import Request
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.prompts import PROMPT
from enginehost.serve.mcp.resources import SESSION, Resources
from enginehost.serve.mcp.wire import INVALID_PARAMS, META_SUBSCRIPTION, Fault, notification
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

TOGETHER_SECONDS = 0.05
"""Changes within so long are told as one."""
LOOK_SECONDS = 0.5
"""How often it is seen that the host stops: then all streams end."""
TOOLS, PROMPTS, RESOURCES = "tools", "prompts", "resources"
LISTS = (TOOLS, PROMPTS, RESOURCES)
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_MOST_FOLLOWED = 1_000


def list_changed(kind: str) -> str:
    """The notification that a list of this kind has changed."""
    return f"notifications/{kind}/list_changed"


def _kinds_of(entry: Entry) -> tuple[str, ...]:
    mcp = entry.signature.mcp
    if mcp == PROMPT:
        return (PROMPTS,)
    if mcp:
        return (RESOURCES,)
    return (TOOLS, PROMPTS) if agent_behind(entry.record.engine) is not None else (TOOLS,)


class Listener:
    """One who is told; however slow its reader, nothing piles up: a change that waits is told once."""

    def __init__(self) -> None:
        self.lists: set[str] = set()
        self.names: set[str] = set()
        """Functions that are not as they were."""
        self.uris: set[str] = set()
        self.woken = asyncio.Event()
        self.over = False
        """Whether the host stops, and nothing is told any more."""

    def take(self) -> tuple[set[str], set[str], set[str]]:
        """What has changed since the last time: lists, functions, resources."""
        taken = self.lists, self.names, self.uris
        self.lists, self.names, self.uris = set(), set(), set()
        self.woken.clear()
        return taken


class News:
    """Follows the catalog of a host while somebody listens."""

    def __init__(self, host: Host, resources: Resources) -> None:
        self.host, self.resources = host, resources
        self._listeners: set[Listener] = set()
        self._forget: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._seen: dict[str, Entry] = {}

    def join(self) -> Listener:
        """A new listener, to be given back to :meth:`leave`."""
        listener = Listener()
        if not self._listeners:
            self._seen = {entry.name: entry for entry in self.host.catalog}
            self._forget = self.host.catalog.subscribe(lambda _: self._changed())
            self._look()
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Tell it no more."""
        self._listeners.discard(listener)
        if not self._listeners:
            if self._forget is not None:
                self._forget()
            for timer in (self._timer, self._looking):
                if timer is not None:
                    timer.cancel()
            self._forget = self._timer = self._looking = None
            self._seen = {}

    def _look(self) -> None:
        if self.host.accepting:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
            return
        for listener in self._listeners:
            listener.over = True
            listener.woken.set()

    def _changed(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TOGETHER_SECONDS, self._tell)

    def _tell(self) -> None:
        self._timer = None
        before, now = self._seen, {entry.name: entry for entry in self.host.catalog}
        self._seen = now
        lists: set[str] = set()
        names: set[str] = set()
        for name in before.keys() | now.keys():
            old, new = before.get(name), now.get(name)
            if old is new:
                continue
            names.add(name)
            if old is None or new is None or old.function.signature != new.function.signature:
                lists.update(kind for entry in (old, new) if entry is not None for kind in _kinds_of(entry))
            elif agent_behind(new.record.engine) is not None:
                lists.add(PROMPTS)
        for listener in self._listeners:
            listener.lists |= lists
            listener.names |= names
            listener.woken.set()


class Stream:
    """What one client follows: lists, and resources by URI. :meth:`messages` ends when it is closed."""

    def __init__(self, news: News, peer: Peer, meta: Mapping[str, Any] | None = None) -> None:
        self._news, self._peer = news, peer
        self._params = {"_meta": dict(meta)} if meta else None
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._heard_by: set[asyncio.Event] = set()
        self._listener = news.join()

    async def messages(
        self, lists: Iterable[str], uris: Collection[str], heard_by: set[asyncio.Event] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The notifications as they come. ``uris`` may change; then what is in ``heard_by`` is to be set."""
        wanted, listener = frozenset(lists), self._listener
        if heard_by is not None:
            heard_by.add(listener.woken)
            self._heard_by = heard_by
        try:
            while True:
                self._follow(uris)
                await listener.woken.wait()
                if listener.over:
                    return
                changed, names, touched = listener.take()
                for kind in sorted(changed & wanted):
                    yield notification(list_changed(kind), self._params)
                for uri in sorted(uri for uri in uris if uri in touched or self._is_of(uri, names)):
                    yield notification(
                        "notifications/resources/updated", {"uri": uri, **(self._params or {})}
                    )
        finally:
            self.close()

    def close(self) -> None:
        """Follow nothing any more."""
        self._heard_by.discard(self._listener.woken)
        self._news.leave(self._listener)
        for task in self._followed.values():
            task.cancel()
        self._followed.clear()

    def _is_of(self, uri: str, names: set[str]) -> bool:
        entry, _ = self._news.resources.find(self._peer, uri) if names else (None, {})
        return entry is not None and entry.name in names

    def _follow(self, uris: Iterable[str]) -> None:
        wanted = {uri for uri in uris if uri.startswith(SESSION)}
        for uri in self._followed.keys() - wanted:
            self._followed.pop(uri).cancel()
        for uri in sorted(wanted - self._followed.keys())[: _MOST_FOLLOWED - len(self._followed)]:
            self._followed[uri] = asyncio.create_task(self._watch(uri), name="enginehost-mcp-conversation")

    async def _watch(self, uri: str) -> None:
        """Tell of each message of a conversation that is whole."""
        store = (await self._news.host.agents()).store
        session, owner = unquote(uri.removeprefix(SESSION)), owner_of(self._peer.caller)
        after = await store.end(session, owner)
        async with aclosing(store.events(session, owner, after)) as events:
            async for event in events:
                if event.message is None or event.message.status is not Status.OPEN:
                    self._listener.uris.add(uri)
                    self._listener.woken.set()


async def listening(news: News, peer: Peer, request: Request) -> AsyncGenerator[bytes, None]:
    """The messages of ``subscriptions/listen``: what is told from now on, and then each change.

    Raises :class:`Fault` before the first.
    """
    wanted: Any = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise Fault(INVALID_PARAMS, "notifications must say what to listen to")
    lists = [kind for kind in LISTS if wanted.get(f"{kind}ListChanged") is True]
    asked: Any = wanted.get("resourceSubscriptions") or []
    if not isinstance(asked, list) or not all(isinstance(uri, str) for uri in asked):
        raise Fault(INVALID_PARAMS, "resourceSubscriptions must be a list of URIs")
    if len(asked) > _MOST_FOLLOWED:
        raise Fault(INVALID_PARAMS, f"at most {_MOST_FOLLOWED} resources may be followed")
    uris: list[str] = []
    for uri in asked:
        try:
            await news.resources.check(peer, uri)
        except Fault:
            continue  # what is not acknowledged is not followed
        uris.append(uri)
    meta: dict[str, Any] = {META_SUBSCRIPTION: request.id}
    stream = Stream(news, peer, meta)
    told: dict[str, Any] = {f"{kind}ListChanged": True for kind in lists}
    if uris:
        told["resourceSubscriptions"] = uris
    try:
        yield notification(ACKNOWLEDGED, {"notifications": told, "_meta": meta})
        async with aclosing(stream.messages(lists, uris)) as messages:
            async for message in messages:
                yield message
    finally:
        stream.close()


def over(request: Request) -> bytes:
    """The result with which a host ends such a stream."""
    return write({"resultType": "complete", "_meta": {META_SUBSCRIPTION: request.id}})

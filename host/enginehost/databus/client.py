"""The databus for programs without a host: what is offered, and calls to it.

::

    async with Client(domain=0) as bus:
        print(await bus.call("add", {"a": 1, "b": 2}))

    with SyncClient(domain=0) as bus:
        print(bus.call("add", {"a": 1, "b": 2}))
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import replace
from enum import StrEnum
from random import getrandbits
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from enginehost.catalog import Catalog, Change, ChangeKind, Entry
from enginehost.contributions import OWN_TRANSPORT, collect
from enginehost.databus.agents_list import AgentEvent, BusAgent
from enginehost.databus.bus import leave
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.interface_events import InterfaceEvents
from enginehost.databus.link import DISCOVERY_SECONDS, QUIET_SECONDS, Link, agent_events
from enginehost.databus.pause import Pulse
from enginehost.databus.port import Transport
from enginehost.databus.proof import proofs_of
from enginehost.databus.transports import Join, find_transport
from enginehost.engine import Call
from enginehost.errors import CallTimeout, ConfigError, EngineUnavailable, TooLarge, UnknownFunction
from enginehost.plugins import PluginRegistry
from enginehost.signature import FunctionSignature
from enginehost.values import encode

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")

_END = object()

_parents: list[ExitStack] = []
"""In a forked child: what its parent has open."""


class BusChange(StrEnum):
    """What happened to a function on the bus."""

    ARRIVED = "arrived"
    CHANGED = "changed"
    DEPARTED = "departed"


class BusEvent(NamedTuple):
    """A function arrived, changed, or departed."""

    kind: BusChange
    signature: FunctionSignature


_KINDS = {
    ChangeKind.ADDED: BusChange.ARRIVED,
    ChangeKind.REPLACED: BusChange.CHANGED,
    ChangeKind.REMOVED: BusChange.DEPARTED,
}


class Client:
    """A participant that calls and offers nothing. Lives on one event loop, in one process.

    ``config`` says how it takes part; ``settings`` replace single fields of it
    (``Client(domain=7, interface="eth0", peers=("10.0.0.5",))``). Raises :class:`ConfigError` for wrong ones,
    and when it is entered :class:`EngineUnavailable` where the bus cannot be joined.
    """

    def __init__(
        self, config: DatabusConfig | None = None, *, interface_name: str = "", **settings: Any
    ) -> None:
        self.config = replace(config or DatabusConfig(), **settings)
        self.interface_events: InterfaceEvents | None = None
        """What tells monitors of this client, where ``interface_name`` makes it an interface for them."""
        self._interface_name = interface_name
        if not self.config.directory:
            hint = "leave it out: a client has nothing but the functions of others"
            raise ConfigError("a databus client has no use with directory=False", hint=hint)
        self._pid = os.getpid()
        self._catalog = Catalog()
        self._link: Link | None = None
        self._transport: Transport | None = None
        self._pulse: Pulse | None = None

    async def __aenter__(self) -> Self:
        self._pid = os.getpid()
        config = self.config
        transport = await asyncio.to_thread(_join(config), config)
        identity = Identity(None)
        try:
            proofs = await asyncio.to_thread(proofs_of, config, lambda: identity.incarnation)
            self._link = Link(self._catalog, transport, identity, config, proofs)
            self._transport = transport
            await self._link.start()
            self._pulse = Pulse(lambda: None, self._link.look_again)
            if self._interface_name and config.events:
                self.interface_events = InterfaceEvents(
                    transport, identity.host_id, self._interface_name, second_era=config.second_era
                )
        except BaseException:
            await leave(transport)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        link, self._link = self._link, None
        if os.getpid() != self._pid:
            return  # what is to be closed belongs to the process that opened it
        if self._pulse is not None:
            await self._pulse.close()
        if self.interface_events is not None:
            await self.interface_events.close()
        if link is not None and self._transport is not None:
            await link.close()
            await leave(self._transport)

    def functions(self, service: str = "") -> list[FunctionSignature]:
        """The functions that are offered now, by name; with ``service`` those of that one.

        Right after joining there are none yet: see :meth:`settled` and :meth:`wait_for`.
        """
        require_own(self._pid)
        return [
            entry.signature
            for entry in self._catalog
            if not service or entry.signature.name.startswith(f"{service}.")
        ]

    def agents(self) -> list[BusAgent]:
        """The agents that can be asked now, by service and name: ``call(agent.function, …)`` asks one."""
        return self._there().agents.agents()

    async def askable(self, agents: Sequence[BusAgent]) -> list[BusAgent]:
        """Those of ``agents`` that take questions."""
        return await self._there().peers.askable(agents)

    async def agent_events(self) -> AsyncGenerator[AgentEvent, None]:
        """Agents that arrive, change and depart, from now on."""
        async with aclosing(agent_events(self._there())) as events:
            async for event in events:
                yield event

    async def settled(self, timeout: float = DISCOVERY_SECONDS, quiet: float = QUIET_SECONDS) -> None:
        """Wait until nothing new has been seen for ``quiet`` seconds, at most ``timeout``."""
        await self._there().settled(timeout, quiet)

    async def wait_for(self, name: str, timeout: float = DISCOVERY_SECONDS) -> FunctionSignature:
        """The function ``name`` (``name`` or ``service.name``), as soon as somebody offers it.

        Raises :class:`UnknownFunction` where nobody does within ``timeout`` seconds.
        """
        return (await self._entry(name, timeout)).signature

    def new_call(self, name: str, timeout: float = 60.0) -> Call:
        """A call of ``name`` that is not made yet, for who follows it by its ids; its seconds run already."""
        return Call(
            name,
            deadline=time.monotonic() + timeout,
            span=getrandbits(64) or 1,
            trace=getrandbits(128) or 1,
            max_result_bytes=self.config.max_result_bytes,
        )

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float = 60.0,
        made: Call | None = None,
    ) -> Any:
        """The result of ``name`` (a list, where it streams), which one provider runs.

        ``timeout`` seconds bound the whole call; ``made`` is one of :meth:`new_call`, which has its own.
        Raises the errors of :mod:`enginehost.errors`;
        :class:`TooLarge` where the result, or all items together, have more than ``max_result_bytes``.
        """
        call = made or self.new_call(name, timeout)
        timeout = timeout if made is None else call.remaining or 0.0
        entry = await self._entry(name, min(timeout, DISCOVERY_SECONDS))
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + (call.remaining or 0.0)):
                if not entry.signature.streaming:
                    return await entry.function.run(dict(arguments or {}), call)
                items = entry.function.run(dict(arguments or {}), call)
                async with aclosing(items):
                    return await self._all(name, items)
        except TimeoutError:
            raise CallTimeout(name, timeout) from None

    async def stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float = 60.0,
        made: Call | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The items of a streaming function as they come; the one result of a plain one.

        Raises what :meth:`call` raises; ``max_result_bytes`` holds for each item.
        """
        call = made or self.new_call(name, timeout)
        timeout = timeout if made is None else call.remaining or 0.0
        entry = await self._entry(name, min(timeout, DISCOVERY_SECONDS))
        if not entry.signature.streaming:
            yield await self.call(name, arguments, made=call)
            return
        async with aclosing(entry.function.run(dict(arguments or {}), call)) as items:
            async for item in items:
                self._measure(name, item)
                yield item

    async def events(self) -> AsyncGenerator[BusEvent, None]:
        """Functions that arrive, change and depart, from now on."""
        require_own(self._pid)
        queue: asyncio.Queue[BusEvent] = asyncio.Queue()

        def heard(changes: Sequence[Change]) -> None:
            for change in changes:
                queue.put_nowait(BusEvent(_KINDS[change.kind], change.entry.signature))

        unsubscribe = self._catalog.subscribe(heard)
        try:
            while True:
                yield await queue.get()
        finally:
            unsubscribe()

    def describe(self) -> dict[str, Any]:
        """Facts for an operator, as a JSON object."""
        link = self._there()
        return (self._transport.describe() if self._transport is not None else {}) | link.describe()

    def _there(self) -> Link:
        require_own(self._pid)
        if self._link is None:
            raise RuntimeError("the client is not on the bus: use `async with Client(…) as bus`")
        return self._link

    def _measure(self, name: str, item: Any, before: int = 0) -> int:
        """How many bytes of JSON there are with ``item``."""
        size, limit = before + len(encode(item)), self.config.max_result_bytes
        if size > limit:
            raise TooLarge(f"the result of {name}", limit=limit, size=size)
        return size

    async def _all(self, name: str, items: AsyncGenerator[Any, None]) -> list[Any]:
        taken: list[Any] = []
        size = 0
        async for item in items:
            size = self._measure(name, item, size)
            taken.append(item)
        return taken

    async def _entry(self, name: str, timeout: float) -> Entry:
        if (entry := await self._there().arrival(name, timeout)) is not None:
            return entry
        if (target := self._catalog.target(name)) is not None:
            message = f"{name} stands for {target}, which is not on the databus now"
            raise EngineUnavailable(message, reason="no-provider")
        raise UnknownFunction(name, nearest=self._catalog.nearest(name, lambda _: True))


def _join(config: DatabusConfig) -> Join:
    if config.transport == OWN_TRANSPORT:
        return find_transport(config.transport, {})
    return find_transport(config.transport, collect(PluginRegistry()).transports)


def require_own(pid: int) -> None:
    """A child that was forked has neither the threads nor the sockets by which its parent is on the bus."""
    if os.getpid() != pid:
        raise RuntimeError(
            f"this databus client belongs to another process ({pid}), of which this one is a fork: "
            "make a client of its own here"
        )


class SyncClient:
    """A :class:`Client` for programs without an event loop; usable from any thread.

    Takes what ``Client`` takes and raises what it raises. An interrupted wait (Ctrl-C) cancels its call.
    """

    def __init__(self, config: DatabusConfig | None = None, **settings: Any) -> None:
        self._client = Client(config, **settings)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        self._pid = os.getpid()
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._client))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if os.getpid() == self._pid:
            self._stack.close()
        else:
            _parents.append(self._stack)  # not even let go of: its threads, which would end it, are not here
        self._portal = None

    def functions(self, service: str = "") -> list[FunctionSignature]:
        """See :meth:`Client.functions`; waits a moment for what there is."""
        self._run(self._client.settled)
        return self._run(self._functions, service)

    def wait_for(self, name: str, timeout: float = DISCOVERY_SECONDS) -> FunctionSignature:
        """See :meth:`Client.wait_for`."""
        return self._run(self._client.wait_for, name, timeout)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: float = 60.0) -> Any:
        """See :meth:`Client.call`."""
        return self._run(self._call, name, arguments, timeout)

    def stream(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: float = 60.0
    ) -> Iterator[Any]:
        """See :meth:`Client.stream`. Leaving the iteration ends the call."""
        items = self._client.stream(name, arguments, timeout=timeout)
        with self._closing(items):
            while (item := self._run(anext, items, _END)) is not _END:
                yield item

    @contextmanager
    def _closing(self, items: AsyncGenerator[Any, None]) -> Generator[None]:
        try:
            yield
        finally:
            if self._portal is not None and os.getpid() == self._pid:
                self._portal.call(items.aclose)

    async def _functions(self, service: str) -> list[FunctionSignature]:
        return self._client.functions(service)

    async def _call(self, name: str, arguments: Mapping[str, Any] | None, timeout: float) -> Any:
        return await self._client.call(name, arguments, timeout=timeout)

    def _run(self, function: Callable[..., Any], *given: Any) -> Any:
        require_own(self._pid)
        if self._portal is None:
            raise RuntimeError("the client is not on the bus: use `with SyncClient(…) as bus`")
        future = self._portal.start_task_soon(function, *given)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

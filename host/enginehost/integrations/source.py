"""Where tools come from: hosts in this process and elsewhere, under one form, blocking and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from enginehost.client import AsyncClient, Client
from enginehost.errors import WaitsForPerson
from enginehost.integrations.content import Shown, shown
from enginehost.integrations.facts import NEEDS_APPROVAL, Facts, Offer, facts_in, facts_of, offer_of
from enginehost.specs import arguments_from

if TYPE_CHECKING:
    from enginehost import Caller, Host, HostSync

KIND = "openai"
"""The kind of tools: names that every vendor takes, schemas that every model understands."""

T = TypeVar("T")


class Way(Protocol):
    """A source of tools. Names and arguments are those that the model knows. All raise the host's errors."""

    def offers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        """The tools, as a model sees them."""
        ...

    async def aoffers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        """The same, awaited."""
        ...

    def facts(self, name: str) -> Facts:
        """What there is to know of a function now."""
        ...

    async def afacts(self, name: str) -> Facts:
        """The same, awaited."""
        ...

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The result of a call."""
        ...

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The same, awaited."""
        ...


def run(way: Way, name: str, arguments: Mapping[str, Any], facts: Facts | None = None) -> Shown:
    """Call a tool; ``facts`` where they are known, and a person has approved if one had to."""
    if facts is None:
        facts = way.facts(name)
        _check(facts, name)
    return shown(way.call(name, arguments), streaming=facts.streaming)


async def arun(way: Way, name: str, arguments: Mapping[str, Any], facts: Facts | None = None) -> Shown:
    """:func:`run`, awaited."""
    if facts is None:
        facts = await way.afacts(name)
        _check(facts, name)
    return shown(await way.acall(name, arguments), streaming=facts.streaming)


def _check(facts: Facts, name: str) -> None:
    if facts.needs_person:
        raise WaitsForPerson(f"{name} was not called: {NEEDS_APPROVAL}")


def way_to(source: Any, caller: Caller | None = None) -> Way:
    """The way to a source. Raises ``TypeError`` for what is none, and for a ``caller`` over HTTP."""
    if isinstance(source, Client | AsyncClient):
        if caller is not None:
            raise TypeError("over HTTP the token says who calls; caller goes with a host in this process")
        return _Blocking(source) if isinstance(source, Client) else _Awaited(source)
    from enginehost import Host, HostSync

    if isinstance(source, Host):
        return _InProcess(source, caller)
    if isinstance(source, HostSync):
        return _InThread(source, caller)
    raise TypeError(f"tools come from a Host, HostSync, Client or AsyncClient, not {type(source).__name__}")


class _Blocking:
    def __init__(self, client: Client) -> None:
        self._client = client

    def offers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        tools = self._client.tools(KIND, tags=tags, query=query, most=most, may_call=True)
        return list(map(offer_of, tools))

    async def aoffers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        return await asyncio.to_thread(self.offers, tags, query, most)

    def facts(self, name: str) -> Facts:
        return facts_in(self._client.describe(name))

    async def afacts(self, name: str) -> Facts:
        return await asyncio.to_thread(self.facts, name)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return self._client.call(name, arguments, kind=KIND)

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return await asyncio.to_thread(self.call, name, arguments)


class _Awaited:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def offers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        _await_instead("AsyncClient", "Client")

    async def aoffers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        tools = await self._client.tools(KIND, tags=tags, query=query, most=most, may_call=True)
        return list(map(offer_of, tools))

    def facts(self, name: str) -> Facts:
        _await_instead("AsyncClient", "Client")

    async def afacts(self, name: str) -> Facts:
        return facts_in(await self._client.describe(name))

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        _await_instead("AsyncClient", "Client")

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return await self._client.call(name, arguments, kind=KIND)


class _InProcess:
    """A host on an event loop of this process: the one that runs where the tools are made."""

    def __init__(self, host: Host, caller: Caller | None) -> None:
        self._host, self._caller = host, caller
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "tools of a Host are made on its event loop: await atools(…) there, or give a HostSync"
            ) from None

    def offers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        work = self._offers(tags, query, most)
        try:
            work.send(None)  # without a query it waits for nothing
        except StopIteration as done:
            return done.value
        work.close()
        raise RuntimeError("choosing tools by a query takes a while: await atools(…)")

    async def aoffers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        return await self._there(self._offers(tags, query, most))

    async def _offers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        host = self._host
        tools = await host.tools_for_model(query, KIND, caller=self._caller, tags=tags, most=most)
        return list(map(offer_of, tools))

    def facts(self, name: str) -> Facts:
        return self._from_elsewhere(self._facts(name))

    async def afacts(self, name: str) -> Facts:
        return await self._there(self._facts(name))

    async def _facts(self, name: str) -> Facts:
        return _facts(self._host, name, self._caller)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return self._from_elsewhere(self._call(name, arguments))

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return await self._there(self._call(name, arguments))

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        own, given = _own(self._host, name, arguments, self._caller)
        return await self._host.call(own, given, caller=self._caller)

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _from_elsewhere(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            work.close()
            _await_instead("Host on its own event loop", "HostSync")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _InThread:
    def __init__(self, host: HostSync, caller: Caller | None) -> None:
        self._host, self._caller = host, caller

    def offers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        tools = self._host.tools_for_model(query, KIND, caller=self._caller, tags=tags, most=most)
        return list(map(offer_of, tools))

    async def aoffers(self, tags: Iterable[str], query: str, most: int | None) -> list[Offer]:
        return await asyncio.to_thread(self.offers, tags, query, most)

    def facts(self, name: str) -> Facts:
        return _facts(self._host.host, name, self._caller)

    async def afacts(self, name: str) -> Facts:
        return await asyncio.to_thread(self.facts, name)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        own, given = _own(self._host.host, name, arguments, self._caller)
        if self._caller is None:
            return self._host.call(own, given)
        return self._host.call(own, given, caller=self._caller)

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return await asyncio.to_thread(self.call, name, arguments)


def _facts(host: Host, name: str, caller: Caller | None) -> Facts:
    return facts_of(host.entry(host.resolve(name, KIND, caller=caller), caller).function)


def _own(
    host: Host, name: str, arguments: Mapping[str, Any], caller: Caller | None
) -> tuple[str, dict[str, Any]]:
    """The function that a model means, and the arguments as it takes them."""
    entry = host.entry(host.resolve(name, KIND, caller=caller), caller)
    return entry.name, arguments_from(entry.signature, KIND, arguments)


def _await_instead(kind: str, other: str) -> NoReturn:
    raise RuntimeError(f"tools of a {kind} are awaited; for a framework's blocking calls, give a {other}")

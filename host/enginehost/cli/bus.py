"""The databus, asked without a host of one's own: a host that serves nothing joins it for a moment."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from enginehost.cli.local import HostSource
from enginehost.databus.config import config_of
from enginehost.host import Host
from enginehost.settings import HostSettings, load_settings


def bus_settings(
    folder: Path, config: Path | None, domain: int | None, interface: str | None
) -> HostSettings:
    """The settings of a command that looks at the databus; what is ``None`` is as they say."""
    return load_settings(
        folder,
        config=config,
        databus__domain=domain,
        databus__interface=interface,
        databus__enabled=True,
        databus__directory=True,
    )


class BusSource(HostSource):
    """The functions that others offer on the databus.

    ``folder`` and ``config`` are where settings come from; ``domain`` and ``interface`` go before them.
    """

    def __init__(self, folder: Path, config: Path | None, domain: int | None, interface: str | None) -> None:
        settings = bus_settings(folder, config, domain, interface)
        super().__init__(Host(None, config_of(settings), settings=settings))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def functions(self, tags: Sequence[str]) -> list[dict[str, Any]]:
        """The functions in short, sorted by name."""
        await self._all()
        return await super().functions(tags)

    async def tools(
        self, kind: str, tags: Sequence[str], query: str = "", most: int | None = None
    ) -> list[dict[str, Any]]:
        """The functions as tools; with a query those that fit it, the best first, at most ``most``."""
        await self._all()
        return await super().tools(kind, tags, query, most)

    async def describe(self, name: str) -> dict[str, Any]:
        """Everything there is to know of a function."""
        await self._one(name)
        return await super().describe(name)

    async def spec(self, name: str, kind: str) -> dict[str, Any]:
        """The function's spec of a kind."""
        await self._one(name)
        return await super().spec(name, kind)

    async def engines(self) -> list[dict[str, Any]]:
        """The services of others, as engines."""
        return [about | {"path": ""} for about in await super().engines()]

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> bytes:
        """The result as JSON."""
        await self._one(name)
        return await super().call(name, arguments, timeout)

    async def stream(
        self, name: str, arguments: Mapping[str, Any], timeout: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The items as they come, each as JSON."""
        await self._one(name)
        async with aclosing(super().stream(name, arguments, timeout)) as items:
            async for item in items:
                yield item

    async def _all(self) -> None:
        """Wait until all that is there has been seen."""
        if self.host.bus is not None:
            await self.host.bus.settled()

    async def _one(self, name: str) -> None:
        """Wait until ``name`` is there; where it does not come, the call says so."""
        if self.host.bus is not None:
            await self.host.bus.arrival(name)

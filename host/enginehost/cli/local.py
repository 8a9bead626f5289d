"""A folder, loaded once into a host of this process: neither watched nor on the databus."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from enginehost.caller import LOCAL
from enginehost.cli.secrecy import learn_from
from enginehost.host import Host
from enginehost.serve.views import description, engines, summary
from enginehost.settings import load_settings


class HostSource:
    """The functions of a host of this process, for the person who owns it: the policy binds others."""

    def __init__(self, host: Host) -> None:
        self.host = host
        learn_from(host.redactor)

    async def __aenter__(self) -> Self:
        await self.host.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.host.stop(drain=0)

    async def functions(self, tags: Sequence[str]) -> list[dict[str, Any]]:
        """The functions in short, sorted by name."""
        return [summary(entry) for entry in self.host.functions(tags=tags)]

    async def describe(self, name: str) -> dict[str, Any]:
        """Everything there is to know of a function, the file it comes from too."""
        from enginehost.specs import spec_kinds

        entry = self.host.entry(self.host.resolve(name))
        about = description(self.host, entry, LOCAL, spec_kinds())
        return about | {"path": str(entry.record.path)} if entry.record.path else about

    async def spec(self, name: str, kind: str) -> dict[str, Any]:
        """The function's spec of a kind."""
        from enginehost.specs import to_spec

        signature = self.host.entry(self.host.resolve(name)).signature
        return to_spec(signature, kind, name=self.host.face_names(kind).to_face(signature.name))

    async def tools(
        self, kind: str, tags: Sequence[str], query: str = "", most: int | None = None
    ) -> list[dict[str, Any]]:
        """The functions as tools; with a query those that fit it, the best first, at most ``most``."""
        if query or most is not None:
            return await self.host.tools_for_model(query, kind, tags=tags, most=most)
        return self.host.tools(kind, tags=tags)

    async def engines(self) -> list[dict[str, Any]]:
        """The engines with their states and paths."""
        paths = {record.engine_id: str(record.path) for record in self.host.catalog.records.values()}
        return [about | {"path": paths[about["id"]]} for about in engines(self.host, LOCAL)]

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> bytes:
        """The result as JSON."""
        call = self.host.new_call(self.host.resolve(name), LOCAL)
        await self.host.prepare(call.function)
        return await self.host.call_json(call, arguments, timeout=timeout)

    async def stream(
        self, name: str, arguments: Mapping[str, Any], timeout: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The items as they come, each as JSON."""
        call = self.host.new_call(self.host.resolve(name), LOCAL)
        await self.host.prepare(call.function)
        async with aclosing(self.host.stream_json(call, arguments, timeout=timeout)) as items:
            async for item in items:
                yield item


class FolderSource(HostSource):
    """The functions of a folder."""

    def __init__(self, folder: Path, config: Path | None = None) -> None:
        settings = load_settings(folder, config=config)
        super().__init__(Host(folder, None, settings=settings, watch=False, ahead=False))

"""``ENGINE_CLASS = OpenAPI``: the operations of a document as functions, as long as it names them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyio import from_thread, to_thread

from enginehost.engine import AbstractFunctionEngine, Call, EngineContext, Function
from enginehost.errors import ConfigError, EngineHostError
from enginehost.signature import without_parameters
from enginehost_engines.absence import no_file
from enginehost_engines.openapi.calling import rest_config
from enginehost_engines.openapi.config import OpenApiConfig, common_keys
from enginehost_engines.openapi.documents import Documents, is_url, load_file, load_url, shown_url
from enginehost_engines.openapi.faults import Unmappable, broken
from enginehost_engines.openapi.fetching import Fetched, fetch
from enginehost_engines.openapi.operations import Mapper, Operation, Selection, contents_of
from enginehost_engines.openapi.trust import harmless, has_credentials, trusted_origin
from enginehost_engines.rest.kinds import RestEngine, StreamRestEngine
from enginehost_engines.rest.request import Headers
from enginehost_engines.rest.tls import tls_files
from enginehost_engines.rest.url import Origin, parse

if TYPE_CHECKING:
    from enginehost_engines.rest.config import RestConfig

_MOST_TOLD = 20


@dataclass(eq=False, slots=True)
class Served:
    """One operation that is served. It ends when it is retired and its last call has ended."""

    operation: Operation
    engine: RestEngine | StreamRestEngine
    running: int = 0
    retired: bool = False

    async def run(self, parameters: dict[str, Any], call: Call) -> Any:
        """Carry the operation out."""
        self.running += 1
        try:
            return await self.engine.execute(parameters, call)  # type: ignore[misc]
        finally:
            await self._ended()

    async def stream(self, parameters: dict[str, Any], call: Call) -> AsyncIterator[Any]:
        """Carry it out, item by item."""
        self.running += 1
        source = self.engine.execute(parameters, call)
        try:
            async for item in source:  # type: ignore[union-attr]
                yield item
        finally:
            await source.aclose()  # type: ignore[union-attr]
            await self._ended()

    async def _ended(self) -> None:
        self.running -= 1
        if self.retired and not self.running:
            await self.engine.close()

    async def retire(self) -> None:
        """Let calls that run end; then nothing is left."""
        self.retired = True
        if not self.running:
            await self.engine.close()


class OpenApiEngine(AbstractFunctionEngine):
    """Reads a document when it opens, and again when it changes.

    A file is watched by the host, which makes the engine anew; what is behind a URL is asked for again, and a
    new version that is broken changes nothing.
    """

    config_model = OpenApiConfig
    requires_signature = False
    config: OpenApiConfig

    def __init__(self, context: EngineContext, config: OpenApiConfig) -> None:
        super().__init__(context, config)
        self._url = config.openapi_spec if is_url(config.openapi_spec) else ""
        self._path = context.folder / config.openapi_spec
        if not self._url and not self._path.is_file():
            message = f"OPENAPI_SPEC: {no_file(config.openapi_spec, self._path)}"
            raise ConfigError(message, hint="name a file beside this one, or a URL", key="OPENAPI_SPEC")
        self._selection = Selection(
            include=tuple(config.openapi_include),
            exclude=tuple(config.openapi_exclude),
            prefix=config.openapi_prefix,
            tags=tuple(config.openapi_tags),
            base_url=config.openapi_base_url or "",
        )
        self._common = common_keys(config)
        self._served: dict[str, Served] = {}
        self._files: list[Path] = [] if self._url else [self._path]
        self._tls = tls_files(cast("RestConfig", config), context.folder)
        self._trusted: Origin | None = None
        self._marks: Headers = ()
        self._refreshing: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        """Read the document. Raises :class:`ConfigError` where it is broken, and what fetching raises."""
        fetched = await self._fetched() if self._url else None
        await self._read(fetched)
        self._is_open = True
        if self._url and self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())

    async def close(self) -> None:
        """Look no more, and let go of the connections."""
        self._is_open = False
        task, self._refreshing = self._refreshing, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        served, self._served = self._served, {}
        for one in served.values():
            await one.engine.close()

    def watched(self) -> Sequence[Path]:
        """The document, where it is a file, the files that it refers to, and those of TLS."""
        return (*self._files, *self._tls.paths)

    @property
    def trouble(self) -> str:
        """That calls to a server are refused, because it failed again and again; empty while none are."""
        return "; ".join(sorted({one.engine.trouble for one in self._served.values()} - {""}))

    def functions(self) -> Iterable[Function]:
        """The operations there are now; none until the document was read."""
        return [self._function(one) for one in self._served.values()]

    def _function(self, served: Served) -> Function:
        operation = served.operation
        signature = operation.signature
        bind = {name: value for name, value in self.context.bind.items() if name in signature.properties}
        seen = without_parameters(signature.parameters, {*bind, *operation.hidden})
        made = self.context.function(served.stream if operation.streams else served.run)
        return replace(
            made,
            signature=replace(signature, parameters=seen),
            bind={**bind, **self._hidden(operation)},
        )

    async def _fetched(self, marks: Headers = ()) -> Fetched:
        return await fetch(self._url, private_networks=self.context.access.private_networks, marks=marks)

    async def _read(self, fetched: Fetched | None) -> None:
        """Read and map on a thread, then serve what came of it, all in one step."""
        documents, operations = await to_thread.run_sync(self._mapped, fetched)
        trusted = trusted_origin(documents, self._selection.base_url, self._common)
        made: dict[str, Served] = {}
        for operation in operations:
            before = self._served.get(operation.name)
            if before is not None and before.operation == operation and trusted == self._trusted:
                made[operation.name] = before
            else:
                made[operation.name] = self._serving(operation, trusted)
        old, self._served = self._served, made
        self._trusted = trusted
        self._files = list(documents.files)
        if fetched is not None:
            self._marks = fetched.marks
        kept = set(map(id, made.values()))
        for one in old.values():
            if id(one) not in kept:
                await one.retire()

    def _mapped(self, fetched: Fetched | None) -> tuple[Documents, list[Operation]]:
        documents = self._load(fetched)
        contents = contents_of(documents, self._selection)
        mapper = Mapper(documents, self._selection)
        made: list[Operation] = []
        for entry in contents.entries:
            try:
                made.append(mapper.operation(entry))
            except Unmappable as error:
                contents.skipped.append((entry.origin, error.found))
        for origin, found in contents.skipped[:_MOST_TOLD]:
            self.context.log.warning("%s is left out: %s", origin, found.message)
        if len(contents.skipped) > _MOST_TOLD:
            self.context.log.warning("%d operations are left out in all", len(contents.skipped))
        if not made and contents.skipped:
            raise broken(f"no operation can be served: {contents.skipped[0][1].message}", name=documents.name)
        return documents, made

    def _load(self, fetched: Fetched | None) -> Documents:
        remote = self.config.openapi_remote_refs
        if fetched is None:
            return load_file(self._path, self._fetch_from_thread, remote=remote)
        return load_url(self._url, fetched.data or b"", self._fetch_from_thread, remote=remote)

    def _fetch_from_thread(self, url: str) -> bytes:
        async def get() -> bytes:
            private = self.context.access.private_networks
            return (await fetch(url, private_networks=private)).data or b""

        try:
            return from_thread.run(get)
        except EngineHostError as error:
            raise broken(error.message) from None

    def _serving(self, operation: Operation, trusted: Origin | None) -> Served:
        properties = operation.signature.properties
        bound = {*operation.hidden, *(name for name in self.context.bind if name in properties)}
        parameters = without_parameters(operation.signature.parameters, bound)
        context = replace(
            self.context,
            signature=replace(operation.signature, parameters=parameters),
            bind=dict.fromkeys(bound, ""),
        )
        kind = StreamRestEngine if operation.streams else RestEngine
        return Served(operation, kind(context, rest_config(operation, self._keys_for(operation, trusted))))

    def _keys_for(self, operation: Operation, trusted: Origin | None) -> dict[str, Any]:
        """The keys of the file that hold for an operation: credentials go to the trusted server only."""
        if has_credentials(self._common) and parse(operation.server.url).origin != trusted:
            self.context.log.warning(
                "%s is called without credentials: it is on another server", operation.name
            )
            return harmless(self._common)
        common = dict(self._common)
        if "API_KEY_VALUE" in common and "AUTH" not in common:
            if operation.hidden:
                common["AUTH"] = "none"  # it travels in the query or a cookie
            elif operation.security.keys.get("AUTH") == "api_key":
                common.setdefault("API_KEY_HEADER_NAME", operation.security.keys["API_KEY_HEADER_NAME"])
        return common

    def _hidden(self, operation: Operation) -> dict[str, str]:
        """The API key for the parameters that carry it; none where it may not go there."""
        secret = self._common.get("API_KEY_VALUE")
        if secret is None or parse(operation.server.url).origin != self._trusted:
            return {}
        return {name: secret.get_secret_value() for name in operation.hidden}

    async def _refresh(self) -> None:
        """Look at the URL from time to time, as long as the engine is open."""
        failed = False
        while True:
            await asyncio.sleep(self.config.openapi_refresh_seconds)
            try:
                fetched = await self._fetched(self._marks)
                if fetched.data is not None:
                    before = set(self._served.values())
                    await self._read(fetched)
                    if set(self._served.values()) != before:
                        self.context.changed()
                if failed:
                    self.context.log.info("%s can be read again", shown_url(self._url))
                failed = False
            except EngineHostError as error:
                if not failed:
                    self.context.log.warning("the functions stay as they were: %s", error.message)
                failed = True
            except Exception:
                self.context.log.exception("the functions stay as they were")

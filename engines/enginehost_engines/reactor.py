"""``ENGINE_CLASS = Reactor``: a reactor class, run in a worker process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from enginehost.engine import Call, EngineContext, Function, RunMode
from enginehost_engines.dotted import class_folders, find_dotted
from enginehost_engines.reactor_source import read_mode, read_nouns
from enginehost_engines.worker.client import WorkerClient
from enginehost_engines.worker.spec import WorkerSpec
from enginehost_engines.worker_engine import WorkerEngine
from enginehost_engines.worker_keys import WorkerKeys

_IDLE_SECONDS = 1800.0


class ReactorConfig(WorkerKeys):
    """The smss keys of Reactor."""

    reactor_class_name: str = Field(
        description="The class as a dotted Python path; its module is looked for beside the smss"
        " file first, then in the engine's folder `<alias>__<id>`, its `app_root/version/assets` and its"
        " `py`, then among what is installed."
    )
    logger_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        default="WARNING", description="From which level on the reactor's log records reach the host's log."
    )
    python_workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="How many calls of this engine run in parallel, each in a process. Where the key is"
        " there, they are started when the engine opens, as far as there is room.",
    )


class ReactorEngine(WorkerEngine):
    """Runs a :class:`enginehost.reactor.Reactor`, a new instance for each call.

    What the file leaves out comes from the class: the name without ``Reactor``, its docstring, a
    parameter for each of ``keys_to_get``, and the schema of its answer. An ``execute`` that yields streams.
    """

    config_model = ReactorConfig
    requires_signature: ClassVar[bool] = False
    config: ReactorConfig

    def __init__(self, context: EngineContext, config: ReactorConfig) -> None:
        super().__init__(context, config)
        self._class = find_dotted(config.reactor_class_name, class_folders(context), "REACTOR_CLASS_NAME")
        self._nouns = read_nouns(self._class)
        mode = read_mode(self._class)
        self._is_guess = mode is None
        """Whether only the loaded class can tell how ``execute`` runs."""
        self._mode = mode or RunMode.SYNC
        self._learning: asyncio.Lock | None = None
        self._client = self._connect()

    def _connect(self) -> WorkerClient:
        folder, config, context = str(self.context.folder.resolve()), self.config, self.context
        order = {
            "kind": "reactor",
            "class": self._class.path,
            "folders": list(self._class.folders),
            "root": folder,
            "level": config.logger_level,
        }
        spec = WorkerSpec.of(
            order,
            f"{self._class.folders[0]} {self._class.path}",
            concurrent=self._mode in (RunMode.ASYNC, RunMode.ASYNC_STREAM),
            version=self._class.version,
            idle=_IDLE_SECONDS,
            limits=config.worker_limits(),
        )
        return WorkerClient(
            spec, context.log, self, size=config.python_workers, most=context.access.max_workers
        )

    def own_files(self) -> Sequence[Path]:
        """The class's module, where it lies beside the smss file."""
        return (self._class.file,) if self._class.file else ()

    async def open(self) -> None:
        """Ask the class for its keys, where they cannot be read from its file.

        A version that replaces another is loaded in a worker first.
        """
        mode = await self._checked_mode(self._client, "") if self.context.reloading else None
        if self._nouns is None and not (self.context.signature and self.context.signature.properties):
            self._nouns = await self._client.load()
            mode = await self._mode_of(self._client, "")
        if mode is not None and self._is_guess:
            await self._take_mode(mode)
        if "python_workers" in self.config.model_fields_set:
            self._client.prepare()

    async def close(self) -> None:
        """End the process."""
        await self._client.close()

    def functions(self) -> Iterable[Function]:
        """The one function."""
        if self._mode.streams:
            return (self.context.function(self._stream, RunMode.ASYNC_STREAM, **self._completed()),)
        return (self.context.function(self._run, RunMode.ASYNC, **self._completed()),)

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call the function that functions() gives")

    async def _run(self, arguments: dict[str, Any], call: Call) -> Any:
        if self._is_guess:
            await self._learn_mode()
            if self._mode.streams:
                return [item async for item in self._stream(arguments, call)]
        return await self._client.call("", arguments, call.function)

    async def _stream(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        items = self._client.stream("", arguments, call.function)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    async def _learn_mode(self) -> None:
        """Ask the loaded class how it runs, once."""
        self._learning = self._learning or asyncio.Lock()
        async with self._learning:  # no call may run while the workers are exchanged
            if self._is_guess and await self._take_mode(await self._mode_of(self._client, "")):
                self.context.changed()

    async def _take_mode(self, found: RunMode) -> bool:
        """Whether it is another than was thought."""
        self._is_guess = False
        if found is self._mode:
            return False
        former, self._mode = self._client, found
        self._client = self._connect()
        await former.close()
        return True

    def _completed(self) -> dict[str, Any]:
        declared, nouns = self.context.signature, self._nouns or {}
        fields: dict[str, Any] = {}
        if declared is None:
            fields["name"] = self._class.name.removesuffix("Reactor") or self._class.name
        if declared is None or not declared.description:
            fields["description"] = nouns.get("doc", "")
        if declared is None or not declared.properties:
            fields["parameters"] = _parameters(nouns, self.context.bind)
        if nouns.get("result") is not None and (declared is None or declared.result is None):
            fields["result"] = nouns["result"]
        return fields


def _parameters(nouns: Mapping[str, Any], bound: Iterable[str]) -> dict[str, Any]:
    schemas: Mapping[str, Any] = nouns.get("schemas", {})
    properties = {key: dict(schema) for key, schema in schemas.items() if key not in bound}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [key for key in nouns.get("required", ()) if key in properties]
    return schema | ({"required": required} if required else {})

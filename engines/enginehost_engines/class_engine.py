"""``ENGINE_CLASS = package.module:Class``: an engine class that no plugin registers, in a worker process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from enginehost.engine import Call, EngineContext, Function, Run, RunMode
from enginehost_engines.dotted import class_folders, find_dotted
from enginehost_engines.worker.client import WorkerClient
from enginehost_engines.worker.engine_target import context_to_json, function_from_json
from enginehost_engines.worker.spec import WorkerSpec
from enginehost_engines.worker_engine import WorkerEngine
from enginehost_engines.worker_keys import MemoryKey

if TYPE_CHECKING:
    from enginehost.agents.facts import AgentFacts
    from enginehost.agents.python_agent import WorkerAgent


class ClassEngine(WorkerEngine):
    """Stands in the host for an engine that lives in a process of its own.

    The process starts when the engine opens and is started anew at the next call where it has died.
    """

    config_model = MemoryKey
    requires_signature: ClassVar[bool] = False
    accepts_any_key: ClassVar[bool] = True

    def __init__(self, context: EngineContext, config: MemoryKey | None = None) -> None:
        super().__init__(context, config)
        self._class = find_dotted(context.properties["ENGINE_CLASS"], class_folders(context), "ENGINE_CLASS")
        folder = str(context.folder.resolve())
        order = {
            "kind": "engine",
            "class": self._class.path,
            "folders": list(self._class.folders),
            "root": folder,
            "level": "INFO",
            "context": context_to_json(context),
        }
        origin = f"{self._class.folders[0]} {self._class.path}"
        limits = (config or MemoryKey()).worker_limits()
        spec = WorkerSpec.of(order, origin, concurrent=True, pinned=True, limits=limits)
        self._client = WorkerClient(spec, context.log, self)
        self._functions: tuple[Function, ...] = ()
        self.agent: WorkerAgent | None = None
        """Where the class is an agent: what its tools in the process are tools of."""
        self.facts: AgentFacts | None = None
        """Where the class is an agent that answers without a session: what it says of itself."""
        self._own_files: tuple[Path, ...] = (self._class.file,) if self._class.file else ()

    def own_files(self) -> Sequence[Path]:
        """The class's module, where it lies beside the smss file, and what the engine watches."""
        return self._own_files

    @property
    def trouble(self) -> str:
        """What an agent names that there is not."""
        return self.agent.trouble if self.agent is not None else ""

    async def open(self) -> None:
        """Start the process and open the engine in it."""
        await self._client.load()
        if self.agent is not None and not self.agent.opens_at_once:
            await self.agent.open()

    async def close(self) -> None:
        """Close the engine and end its process."""
        await self._client.close()

    def functions(self) -> Iterable[Function]:
        """What the engine declares; before it is open, what its file does."""
        if self._functions or self.context.signature is None:
            return self._functions
        return (self.context.function(_call_in(self._client, self.context.signature.name), RunMode.ASYNC),)

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call the functions that functions() gives")

    def loaded(self, info: Mapping[str, Any], files: Collection[str]) -> None:
        """Take over what the engine offers now."""
        was_open, self._is_failing = bool(self._functions), False
        self._functions = tuple(self._function(body) for body in info["functions"])
        if told := info.get("agent"):
            from enginehost.agents.python_agent import WorkerAgent

            self.agent = WorkerAgent(self.context, told, self._functions)
            self._functions = self.agent.functions()
        if facts := info.get("facts"):
            from enginehost.agents.facts import AgentFacts

            self.facts = AgentFacts(**facts)
        own = (self._class.file,) if self._class.file else ()
        named = self.agent.watched() if self.agent is not None else ()
        self._own_files = tuple(dict.fromkeys((*own, *named, *info["watched"])))
        self._watch(files)
        if was_open:
            self.context.changed()

    def _function(self, body: Mapping[str, Any]) -> Function:
        name = body["signature"]["name"]
        if body["signature"]["streaming"]:
            return function_from_json(body, _stream_in(self._client, name), RunMode.ASYNC_STREAM)
        return function_from_json(body, _call_in(self._client, name), RunMode.ASYNC)


def _call_in(client: WorkerClient, name: str) -> Run:
    async def run(arguments: dict[str, Any], call: Call) -> Any:
        return await client.call(name, arguments, name, _about(call))

    return run


def _stream_in(client: WorkerClient, name: str) -> Run:
    def run(arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        return client.stream(name, arguments, name, _about(call))

    return run


def _about(call: Call) -> dict[str, Any]:
    """What the engine may know of a call."""
    caller = call.caller
    return {
        "caller": {
            "subject": caller.subject,
            "tenant": caller.tenant,
            "scopes": sorted(caller.scopes),
            "face": caller.face,
            "authenticated": caller.authenticated,
        },
        "remaining": call.remaining,
        "ids": [call.call_id, call.chain_id, f"{call.parent:016x}"],
    }

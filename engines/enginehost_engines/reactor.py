"""``ENGINE_CLASS = Reactor``: a reactor class, run in a worker process."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from enginehost.config import EngineConfig
from enginehost.engine import Call, EngineContext, Function, RunMode
from enginehost_engines.dotted import DottedClass, find_dotted
from enginehost_engines.worker.client import WorkerClient
from enginehost_engines.worker.process import WorkerSpec
from enginehost_engines.worker_engine import WorkerEngine

_IDLE_SECONDS = 1800.0

_KEY_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "limit": {"type": "integer"},
    "offset": {"type": "integer"},
    "map": {"type": "object"},
    "object": {"type": "object"},
}
"""Keys whose type SEMOSS knows by their name; any JSON value fits the others."""


class ReactorConfig(EngineConfig):
    """The smss keys of Reactor."""

    reactor_class_name: str = Field(
        description="The class as a dotted Python path; its module is looked for beside the smss file first."
    )
    logger_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        default="WARNING", description="From which level on the reactor's log records reach the host's log."
    )
    python_workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="How many calls of this engine run in parallel, each in a process.",
    )


class ReactorEngine(WorkerEngine):
    """Runs a :class:`enginehost.reactor.Reactor`, a new instance for each call.

    What the file leaves out comes from the class: the name without ``Reactor``, its docstring, and
    a parameter for each of ``keys_to_get``.
    """

    config_model = ReactorConfig
    requires_signature: ClassVar[bool] = False
    config: ReactorConfig

    def __init__(self, context: EngineContext, config: ReactorConfig) -> None:
        super().__init__(context, config)
        self._class = find_dotted(config.reactor_class_name, context.folder, "REACTOR_CLASS_NAME")
        self._nouns = _read_nouns(self._class)
        folder = str(context.folder.resolve())
        order = {
            "kind": "reactor",
            "class": self._class.path,
            "folders": [folder],
            "root": folder,
            "level": config.logger_level,
        }
        spec = WorkerSpec.of(
            order,
            f"{folder} {self._class.path}",
            concurrent=_is_async(self._class),
            version=self._class.version,
            idle=_IDLE_SECONDS,
        )
        self._client = WorkerClient(
            spec, context.log, self, size=config.python_workers, most=context.access.max_workers
        )

    def own_files(self) -> Sequence[Path]:
        """The class's module, where it lies beside the smss file."""
        return (self._class.file,) if self._class.file else ()

    async def open(self) -> None:
        """Ask the class for its keys, where they cannot be read from its file.

        A version that replaces another is loaded in a worker first.
        """
        if self.context.reloading:
            await self._checked_mode(self._client, "")
        if self._nouns is None and not (self.context.signature and self.context.signature.properties):
            self._nouns = await self._client.load()

    async def close(self) -> None:
        """End the process."""
        await self._client.close()

    def functions(self) -> Iterable[Function]:
        """The one function."""
        return (self.context.function(self._run, RunMode.ASYNC, **self._completed()),)

    def execute(self, parameters: dict[str, Any]) -> Any:
        """Not the way in: :meth:`functions` has it."""
        raise NotImplementedError("call the function that functions() gives")

    async def _run(self, arguments: dict[str, Any], call: Call) -> Any:
        return await self._client.call("", arguments, call.function)

    def _completed(self) -> dict[str, Any]:
        declared, nouns = self.context.signature, self._nouns or {}
        fields: dict[str, Any] = {}
        if declared is None:
            fields["name"] = self._class.name.removesuffix("Reactor") or self._class.name
        if declared is None or not declared.description:
            fields["description"] = nouns.get("doc", "")
        if declared is None or not declared.properties:
            fields["parameters"] = _parameters(nouns, self.context.bind)
        return fields


def _parameters(nouns: Mapping[str, Any], bound: Iterable[str]) -> dict[str, Any]:
    keys = [key for key in nouns.get("keys", ()) if key not in bound]
    texts = nouns.get("descriptions", {})
    properties = {
        key: {**_KEY_SCHEMAS.get(key, {}), **({"description": texts[key]} if key in texts else {})}
        for key in keys
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [key for key in nouns.get("required", ()) if key in properties]
    return schema | ({"required": required} if required else {})


def _is_async(dotted: DottedClass) -> bool:
    body = _body(dotted)
    return any(isinstance(node, ast.AsyncFunctionDef) and node.name == "execute" for node in body)


def _body(dotted: DottedClass) -> list[ast.stmt]:
    node = dotted.source.classes.get(dotted.name) if dotted.source else None
    return node.body if node else []


def _read_nouns(dotted: DottedClass) -> dict[str, Any] | None:
    """What ``enginehost.reactor.describe`` would say, read from the file; ``None`` where that does not do."""
    node = dotted.source.classes.get(dotted.name) if dotted.source else None
    if node is None or [ast.unparse(base).rpartition(".")[2] for base in node.bases] != ["Reactor"]:
        return None
    try:
        values = dict(_assigned(node.body))
    except (TypeError, ValueError):
        return None
    keys = list(values.get("keys_to_get", ()))
    marks = list(values.get("key_required", ())) or [1] * len(keys)
    return {
        "keys": keys,
        "required": [key for key, mark in zip(keys, marks, strict=False) if mark],
        "descriptions": dict(values.get("key_descriptions", {})),
        "doc": ast.get_docstring(node) or "",
    }


_ATTRIBUTES = {
    "keys_to_get": "keys_to_get",
    "keysToGet": "keys_to_get",
    "key_required": "key_required",
    "keyRequired": "key_required",
    "key_descriptions": "key_descriptions",
}


def _assigned(body: Sequence[ast.stmt]) -> Iterable[tuple[str, Any]]:
    """The literal values of the attributes above, set in the class or in ``__init__`` on ``self``."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from _assigned(node.body)
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            name = getattr(target, "id", "") or getattr(target, "attr", "")
            if name in _ATTRIBUTES:
                yield _ATTRIBUTES[name], ast.literal_eval(node.value)

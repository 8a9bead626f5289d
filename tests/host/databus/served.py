"""What the databus needs of a host, without files and engines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from enginehost.caller import Caller
from enginehost.catalog import Catalog, EngineRecord, Entry
from enginehost.engine import Call, EngineState, Function, run_mode
from enginehost.errors import EngineHostError
from enginehost.invoke import Invoker
from enginehost.policy import Policy
from enginehost.record import Recorder, Sink, Stats
from enginehost.signature import FunctionSignature
from enginehost.steps import Steps
from enginehost.values import encode


class ServedCatalog:
    """What the databus needs of a host, with the real call path and functions put in by the test."""

    def __init__(self, policy: Policy) -> None:
        self.folder: Path | None = None
        self.catalog = Catalog()
        self._invoker = Invoker(
            self.catalog,
            policy,
            Recorder((), lossless=False),
            default_timeout=60.0,
            max_result_bytes=16 << 20,
            max_in_flight=10_000,
            keep_values=False,
            redact=str,
        )

    @property
    def policy(self) -> Policy:
        return self._invoker.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._invoker.policy = policy

    def new_call(self, name: str, *given: Any) -> Call:
        return self._invoker.new_call(name, *given)

    async def call_json(self, call: Call, arguments: Mapping[str, Any], **options: Any) -> bytes:
        return await self._invoker.call(call, arguments, encode=lambda result, _: encode(result), **options)

    def stream_json(self, call: Call, arguments: Any, **options: Any) -> AsyncGenerator[bytes, None]:
        return self._invoker.stream(call, arguments, encode=lambda result, _: encode(result), **options)

    def visible(self, name: str, caller: Caller) -> Entry | None:
        return self._invoker.visible(name, caller)

    def stats(self, name: str) -> Stats | None:
        return self._invoker.stats.get(name)

    def refuse(self, call: Call, error: EngineHostError) -> None:
        self._invoker.refuse(call, error)

    def redactor(self, text: str) -> str:
        return text

    def watch_starts(self, heard: Callable[[Call], None]) -> Callable[[], None]:
        return self._invoker.tracing.watch(heard)

    @property
    def steps(self) -> Steps:
        return self._invoker.tracing.steps

    def watch_ends(self, sink: Sink) -> Callable[[], None]:
        return self._invoker.recorder.add(sink)

    def put(self, name: str, run: Callable[..., Any] | None = None, **signature: Any) -> None:
        """Serve ``run`` (by default: add ``a`` and ``b``) as ``name``."""
        self.put_all([name], run, **signature)

    def put_all(self, names: list[str], run: Callable[..., Any] | None = None, **signature: Any) -> None:
        run = run or add
        signature.setdefault("parameters", TWO_INTEGERS if run is add else ANYTHING)
        self.catalog.update(
            (
                EngineRecord(name, "test", state=EngineState.READY),
                [Function(FunctionSignature(name, **signature), run, run_mode(run))],
            )
            for name in names
        )

    def remove(self, name: str) -> None:
        self.catalog.remove(name)

    async def close(self) -> None:
        await self._invoker.close()


ANYTHING = {"type": "object", "additionalProperties": True}

TWO_INTEGERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


async def add(arguments: dict[str, Any], call: Any) -> int:
    return arguments["a"] + arguments["b"]

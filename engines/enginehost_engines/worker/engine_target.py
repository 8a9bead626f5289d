"""An engine class inside a worker: made, opened, asked for its functions, called, closed.

The host side uses the conversions at the end.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from enginehost import Caller
from enginehost.engine import (
    CURRENT,
    AbstractFunctionEngine,
    Annotations,
    Approval,
    Call,
    EngineContext,
    Function,
    FunctionSignature,
    HostAccess,
    Limits,
    Run,
    RunMode,
    make_engine,
)
from enginehost.errors import ConfigError, UnknownFunction
from enginehost_engines.worker.calls import filled
from enginehost_engines.worker.targets import Target


class EngineClass(Target):
    """One engine."""

    def __init__(self, engine_class: type[Any], order: Mapping[str, Any]) -> None:
        if not issubclass(engine_class, AbstractFunctionEngine):
            base = "enginehost.AbstractFunctionEngine"
            raise TypeError(f"{engine_class.__name__} is no AbstractFunctionEngine; derive it from {base}")
        context = dataclasses.replace(context_from_json(order["context"]), changed=self._changed)
        if engine_class.requires_signature and context.signature is None:
            raise ConfigError("the key FUNCTION_NAME is missing", reason="missing-key")
        self._engine = make_engine(engine_class, context, _read_config(engine_class, context))
        self._functions: dict[str, Function] = {}

    async def open(self) -> None:
        """Open the engine; of an agent, whose turns the host runs, only what its tools need."""
        engine: Any = self._engine
        await (engine.open() if _as_agent(engine) is None else engine.begin_agent())

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()

    def info(self) -> Any:
        """The functions and watched files there are now."""
        engine: Any = self._engine
        agent = _as_agent(engine)  # the host runs it, with its tools from here
        offered = engine.functions() if agent is None else engine.spec.functions
        self._functions = {function.signature.name: function for function in offered}
        functions = [function_to_json(function) for function in self._functions.values()]
        told = {"functions": functions, "watched": list(self._engine.watched())}
        if agent is not None:
            return told | {"agent": agent}
        facts = getattr(engine, "facts", None)  # of an agent that answers here, without the host's sessions
        return told if facts is None else told | {"facts": dataclasses.asdict(facts)}

    def describe(self, function: str) -> str:
        """The mode that the engine gives."""
        if function not in self._functions:
            raise NameError(f"the engine has no function {function}", name=function)
        return str(self._functions[function].mode)

    def is_sync(self, function: str) -> bool:
        """By the function's mode."""
        return function in self._functions and self._functions[function].mode is RunMode.SYNC

    def invoke(self, function: str, arguments: dict[str, Any], call: Mapping[str, Any] | None) -> Any:
        """Run a function of the engine."""
        found = self._functions.get(function)
        if found is None:
            raise UnknownFunction(function)
        current = filled(_call(function, call or {}), call or {})
        CURRENT.set(current)
        return found.run(arguments, current)

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()


def _as_agent(engine: Any) -> dict[str, Any] | None:
    found = getattr(engine, "as_agent", None)
    return found() if found is not None else None


def _call(function: str, about: Mapping[str, Any]) -> Call:
    caller = dict(about["caller"])
    caller["scopes"] = frozenset(caller["scopes"])
    remaining = about["remaining"]
    deadline = None if remaining is None else time.monotonic() + remaining
    span, trace, parent = (int(digits, 16) for digits in about["ids"])
    return Call(function, Caller(**caller), deadline, span, trace, parent)


def _read_config(engine_class: type[AbstractFunctionEngine], context: EngineContext) -> Any:
    """The config that the loader would make, from the file's keys as they are now."""
    model = engine_class.config_model
    if model is None:
        return None
    from enginehost.config import config_of

    return config_of(context.properties, model, context.path)


# conversions

_PLAIN = ("engine_id", "display_name", "path", "alias", "bind", "coerce_text")


def context_to_json(context: EngineContext) -> dict[str, Any]:
    """A context for the wire."""
    body: dict[str, Any] = {name: getattr(context, name) for name in _PLAIN}
    return body | {
        "properties": dict(context.properties),
        "signature": context.signature,
        "limits": context.limits,
        "approval": str(context.approval),
        "access": context.access,
    }


def context_from_json(body: Mapping[str, Any]) -> EngineContext:
    """The inverse of :func:`context_to_json`."""
    return EngineContext(
        **{name: body[name] for name in _PLAIN},
        properties=body["properties"],
        signature=_signature(body["signature"]) if body["signature"] else None,
        limits=Limits(**body["limits"]),
        approval=Approval(body["approval"]),
        access=HostAccess(**body["access"]),
    )


def function_to_json(function: Function) -> dict[str, Any]:
    """A function for the wire, without what runs it."""
    names = [field.name for field in dataclasses.fields(function) if field.name != "run"]
    body = {name: getattr(function, name) for name in names}
    return body | {"mode": str(function.mode), "approval": str(function.approval)}


def function_from_json(body: Mapping[str, Any], run: Run, mode: RunMode) -> Function:
    """The inverse of :func:`function_to_json`, with another way to run it."""
    return Function(
        signature=_signature(body["signature"]),
        run=run,
        mode=mode,
        limits=Limits(**body["limits"]),
        bind=body["bind"],
        approval=Approval(body["approval"]),
        coerce_text=body["coerce_text"],
        service=body["service"],
    )


def _signature(body: Mapping[str, Any]) -> FunctionSignature:
    fields: dict[str, Any] = dict(body)
    fields["annotations"] = Annotations(**body["annotations"])
    return FunctionSignature(**fields)

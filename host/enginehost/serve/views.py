"""What HTTP shows of functions and engines, as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from enginehost.caller import Caller
from enginehost.catalog import EngineRecord, Entry
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.host import Host


def function_path(name: str) -> str:
    """The path at which a function is described and called."""
    return f"/v1/functions/{quote(name, safe='')}"


def summary(entry: Entry) -> dict[str, Any]:
    """A function in a list."""
    signature, record = entry.signature, entry.record
    return {
        "name": signature.name,
        "description": signature.description,
        "tags": list(signature.tags),
        "streaming": signature.streaming,
        "state": str(record.state),
        "engine": record.engine_id,
    }


def description(entry: Entry, kinds: Sequence[str]) -> dict[str, Any]:
    """Everything a caller may know of a function; ``specs`` are links to its spec of each kind."""
    signature, function = entry.signature, entry.function
    path = function_path(signature.name)
    return {
        **summary(entry),
        "engine": entry.record.to_json(),
        "parameters": signature.parameters,
        "result": signature.result,
        "annotations": _given(asdict(signature.annotations)),
        "limits": _given(asdict(function.limits)),
        "approval": str(function.approval),
        "specs": {kind: f"{path}?format={kind}" for kind in kinds},
    }


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def semoss_definition(signature: FunctionSignature) -> dict[str, Any]:
    """SEMOSS's definition of a function."""
    return {
        "name": signature.name,
        "description": signature.description,
        "parameters": dict(signature.parameters),
    }


def engines(host: Host, caller: Caller) -> list[dict[str, Any]]:
    """The engines of which the caller may view something, with what they serve to it.

    One that serves nothing (it failed, or loads) is judged by what its file declares, or by its id.
    """
    served: dict[str, list[str]] = {}
    for entry in host.functions(caller):
        served.setdefault(entry.record.engine_id, []).append(entry.name)
    return [
        {**record.to_json(), "functions": served.get(engine_id, [])}
        for engine_id, record in sorted(host.catalog.records.items())
        if engine_id in served or _may_view_idle(host, record, caller)
    ]


def _may_view_idle(host: Host, record: EngineRecord, caller: Caller) -> bool:
    if host.catalog.entries_of(record.engine_id):
        return False
    return host.policy.may_view(caller, record.declared or FunctionSignature(record.engine_id))

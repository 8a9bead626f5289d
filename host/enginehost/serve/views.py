"""What HTTP shows of functions and engines, as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from enginehost.caller import LOCAL, Caller
from enginehost.catalog import NOTHING_READ, Conflict, Entry
from enginehost.diagnostics import Diagnostic
from enginehost.engine import Limits
from enginehost.folder import UNUSABLE
from enginehost.safe_text import safe_text
from enginehost.serve.disclosure import Reader
from enginehost.signature import Annotations, FunctionSignature

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


def description(host: Host, entry: Entry, caller: Caller, kinds: Sequence[str]) -> dict[str, Any]:
    """Everything ``caller`` may know of a function; ``specs`` are links to its spec of each kind."""
    signature, function = entry.signature, entry.function
    path = function_path(signature.name)
    return {
        **summary(entry),
        "engine": entry.record.to_json() | {"reason": Reader(host, caller).reason(entry.record)},
        "parameters": signature.parameters,
        "result": signature.result,
        "annotations": _hints(signature.annotations),
        "limits": _limits(function.limits),
        "approval": str(function.approval),
        "specs": {kind: f"{path}?format={kind}" for kind in kinds},
    }


def _hints(said: Annotations) -> dict[str, Any]:
    """The hints that are given, spelled as ``FUNCTION_ANNOTATIONS`` has them."""
    return {_camel(name): value for name, value in asdict(said).items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _limits(limits: Limits) -> dict[str, Any]:
    """The limits that are set; ``burst`` is a part of ``rate``."""
    given = {name: value for name, value in asdict(limits).items() if value is not None}
    if limits.rate is None:
        del given["burst"]
    return given


def semoss_definition(signature: FunctionSignature) -> dict[str, Any]:
    """SEMOSS's definition of a function."""
    return {
        "name": signature.name,
        "description": signature.description,
        "parameters": dict(signature.parameters),
    }


def engines(host: Host, caller: Caller) -> list[dict[str, Any]]:
    """The engines of which the caller may view something, with what they serve to it and what is wrong.

    One that serves nothing (it failed, loads, or others have its names) is judged by what it declares, or by
    its id. ``problems`` is ``None`` for those whom :func:`problems` tells nothing, and who may not view all
    that the file declares.
    """
    served: dict[str, list[str]] = {}
    for entry in host.functions(caller):
        served.setdefault(entry.record.engine_id, []).append(entry.name)
    conflicts: dict[str, list[Conflict]] = {}
    for conflict in host.catalog.conflicts():
        conflicts.setdefault(conflict.refused.engine_id, []).append(conflict)
    told, reader = _may_read_problems(host, caller), Reader(host, caller)
    return [
        {
            **record.to_json(),
            "reason": reader.reason(record),
            "functions": served.get(engine_id, []),
            "problems": [_problem(host, one) for one in reader.findings(record, conflicts.get(engine_id, ()))]
            if told and reader.may_view_all(record)
            else None,
        }
        for engine_id, record in sorted(host.catalog.records.items())
        if engine_id in served or reader.may_view_some(record)
    ]


def problems(host: Host, caller: Caller) -> list[dict[str, Any]] | None:
    """What is wrong with the host as a whole; where it knows callers, only for those that it knows.

    Of files that are none nobody can say what they would declare, and their names stand for that.
    """
    if not _may_read_problems(host, caller):
        return None
    all_files = Reader(host, caller).may_view(NOTHING_READ)
    return [_problem(host, found) for found in host.own_problems() if all_files or found.code != UNUSABLE]


def _may_read_problems(host: Host, caller: Caller) -> bool:
    return caller is LOCAL or caller.authenticated or not host.settings.authenticates


def _problem(host: Host, found: Diagnostic) -> dict[str, Any]:
    """A finding for whoever may read it: the place is told without folders."""
    name = Path(found.path).name
    return {
        "severity": str(found.severity),
        "code": found.code,
        "where": f"{name}:{found.line}:{found.column}" if found.line else name,
        "message": safe_text(found.message, host.redactor),
        "hint": safe_text(found.hint, host.redactor),
    }

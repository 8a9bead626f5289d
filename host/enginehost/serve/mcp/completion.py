"""``completion/complete``: what an argument of a prompt or of a resource's template may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.wire import INVALID_PARAMS, Fault
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.serve.mcp.prompts import Prompts
    from enginehost.serve.mcp.resources import Resources

MOST = 100
"""Values in one answer: the most that the protocol allows."""


def completed(prompts: Prompts, resources: Resources, peer: Peer, params: Mapping[str, Any]) -> bytes:
    """The values that the parameter's schema lists and that begin as it does. Raises :class:`Fault`."""
    reference: Any = params.get("ref")
    argument: Any = params.get("argument")
    if not isinstance(reference, dict) or not isinstance(argument, dict):
        raise Fault(INVALID_PARAMS, "ref and argument must be objects")
    if not isinstance(argument.get("name"), str) or not isinstance(argument.get("value"), str):
        raise Fault(INVALID_PARAMS, "argument must have name and value, both texts")
    match reference.get("type"):
        case "ref/prompt":
            name = str(reference.get("name"))
            entry, known = prompts.entry(peer, name), name in prompts.names_of(peer)
        case "ref/resource":
            entry = resources.template(peer, str(reference.get("uri")))
            known = entry is not None
        case _:
            raise Fault(INVALID_PARAMS, "ref must be of type ref/prompt or ref/resource")
    if not known:
        raise Fault(INVALID_PARAMS, "there is no such prompt or template")
    schema = entry.signature.properties.get(argument["name"]) if entry is not None else None
    begun = argument["value"].casefold()
    values = [value for value in _listed(schema) if value.casefold().startswith(begun)]
    found = {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}
    return write({"completion": found})


def _listed(schema: Any) -> list[str]:
    """The texts that a schema lists, as choices or as examples."""
    if not isinstance(schema, Mapping):
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    listed: Any = schema.get("enum") or schema.get("examples") or []
    return [str(value) for value in listed if isinstance(value, str | int | float)]

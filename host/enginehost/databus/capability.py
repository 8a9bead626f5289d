"""A function as the bus shows it: derived from the signature, fitted to the bounds of the type."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from enginehost.databus.identity import Identity
from enginehost.databus.measured import measured
from enginehost.databus.port import Capability
from enginehost.databus.types import FUNCTION_CAPABILITY
from enginehost.record import Stats
from enginehost.signature import FunctionSignature
from enginehost.specs import to_spec

log = logging.getLogger("enginehost.databus")


PUBLIC = {"level": "public"}
SIGNED = {"level": "authenticated", "signature": "ed25519"}

_TITLE_BOUND = 200


def capability_of(
    signature: FunctionSignature,
    identity: Identity,
    service: str,
    last_seen: int,
    *,
    public: bool,
    stats: Stats | None = None,
) -> Capability:
    """The advertisement of a function. ``last_seen`` is in milliseconds since 1970.

    ``public``: any peer may call it, which ``security_requirements`` then says in Genesis's words; else
    only signed requests. ``stats``: what was measured of it.
    What is longer than its bound (UTF-8 bytes) is told in short, with a warning: prose is cut, a
    schema becomes an open object with a comment, of the list of tags as many stay as fit.
    ``classification`` holds the incarnation, a hash of all that makes two functions replicas (the schemas of
    parameters and result, and whether it streams), and what else its signature says.
    """
    spec = to_spec(signature, "genesis")
    schema = _json(spec["parameter_schema"])
    classification = _short_title(spec["classification"]) | {
        "incarnation": identity.incarnation,
        "schema": _shape(schema, signature),
    }
    fitted = _Fitting(signature.name)
    return Capability(
        function_id=identity.function_id(service, signature.name),
        name=spec["name"],
        description=fitted("description", spec["description"], shorten),
        provider_id=identity.host_id,
        parameter_schema=fitted("parameter_schema", schema, _open_schema),
        capabilities=fitted("capabilities", _json(spec["capabilities"]), _fewer_items),
        performance_metrics=_json(measured(stats)),
        security_requirements=_json(PUBLIC if public else SIGNED),
        classification=fitted("classification", _json(classification), _nothing),
        last_seen=last_seen,
        service_name=service,
    )


def shorten(text: str, bound: int) -> str:
    """``text`` as a DDS string can carry it, cut to ``bound`` UTF-8 bytes with an ellipsis."""
    data = text.replace("\0", "\ufffd").encode(errors="replace")
    if len(data) > bound:
        data = data[: bound - len("…".encode())].decode(errors="ignore").encode() + "…".encode()
    return data.decode()


def _shape(schema: str, signature: FunctionSignature) -> str:
    whole = _json([schema, signature.result, signature.streaming])
    return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:16]


def _short_title(classification: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that leaves room for the rest, and a signature, whatever characters the title has."""
    annotations = classification.get("annotations", {})
    if "title" not in annotations:
        return dict(classification)
    title = shorten(annotations["title"], _TITLE_BOUND)
    return {**classification, "annotations": {**annotations, "title": title}}


class _Fitting:
    """Fits members of one capability, and warns of each that does not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, member: str, text: str, in_short: Callable[[str, int], str]) -> str:
        bound = FUNCTION_CAPABILITY.bound(member)
        size = len(text.encode(errors="replace"))
        if size <= bound:
            return shorten(text, bound)
        log.warning("%s: its %s has %d bytes, the databus carries %d", self._name, member, size, bound)
        return in_short(text, bound)


def _json(value: Any) -> str:
    """Compact JSON text; characters beyond ASCII stay, unless lone surrogates are among them."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def says_public(capability: Capability) -> bool:
    """Whether a host like this one says in it that any peer may call the function."""
    return capability.security_requirements == _json(PUBLIC)


def _open_schema(text: str, bound: int) -> str:
    comment = f"The schema has {len(text.encode())} bytes, more than the databus carries ({bound})."
    return _json({"type": "object", "$comment": comment})


def _fewer_items(text: str, bound: int) -> str:
    items = json.loads(text)
    while items and len(_json(items).encode()) > bound:
        items.pop()
    return _json(items)


def _nothing(text: str, bound: int) -> str:
    return "{}"

"""A function in the form of either era: ``FunctionCapability``, ``GenesisAdvertisement``.

Its id is the same in both. What the first era has as members with JSON text, the second has as values in
the payload; a text that is no JSON object or array is a string there, and one that is empty is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginehost.databus.port import Capability
from enginehost.databus.types import ADVERTISEMENT_KIND
from enginehost.values import MalformedJson, NotJson, read, write

FUNCTION, AGENT = ADVERTISEMENT_KIND.value("FUNCTION"), ADVERTISEMENT_KIND.value("AGENT")

_IN_PAYLOAD = (
    "parameter_schema",
    "capabilities",
    "performance_metrics",
    "security_requirements",
    "classification",
)


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A function or an agent on offer, member by member as ``GENESIS_ADVERTISEMENT`` in ``types.py``."""

    advertisement_id: str
    kind: int
    name: str
    description: str
    service_name: str
    provider_id: str
    last_seen: int
    payload: str


def advertisement_of(capability: Capability) -> Advertisement:
    """The second era's form of a function."""
    texts = {member: str(getattr(capability, member)) for member in _IN_PAYLOAD}
    payload = {member: _value(text) for member, text in texts.items() if text}
    return Advertisement(
        advertisement_id=capability.function_id,
        kind=FUNCTION,
        name=capability.name,
        description=capability.description,
        service_name=capability.service_name,
        provider_id=capability.provider_id,
        last_seen=capability.last_seen,
        payload=write(payload).decode(),
    )


def capability_in(advertisement: Advertisement) -> Capability:
    """The first era's form of a function.

    Raises ``ValueError``, which says why, for what is no function or cannot be called: without an id, a name
    or a provider (readers of Genesis ignore those too), or with a payload that is no JSON object.
    """
    if advertisement.kind != FUNCTION:
        raise ValueError("it advertises no function")
    for member in ("advertisement_id", "name", "provider_id"):
        if not getattr(advertisement, member):
            raise ValueError(f"its {member} is empty")
    payload = _object(advertisement.payload)
    return Capability(
        function_id=advertisement.advertisement_id,
        name=advertisement.name,
        description=advertisement.description,
        provider_id=advertisement.provider_id,
        last_seen=advertisement.last_seen,
        service_name=advertisement.service_name,
        **{member: _text(payload.get(member)) for member in _IN_PAYLOAD},
    )


def _value(text: str) -> Any:
    try:
        found = read(text.encode())
        write(found)
    except (MalformedJson, NotJson):  # the latter is nested too deep
        return text
    return found if isinstance(found, dict | list) else text


def _object(payload: str) -> Mapping[str, Any]:
    try:
        found = read(payload.encode()) if payload else {}
    except MalformedJson as error:
        raise ValueError(f"its payload is {error.message}") from error
    if isinstance(found, dict):
        return found
    raise ValueError("its payload is no JSON object")


def _text(value: Any) -> str:
    """A member in the payload as text; Genesis has some of them as text there too."""
    if value is None:
        return ""
    try:
        return value if isinstance(value, str) else write(value).decode()
    except NotJson as error:
        raise ValueError(f"its payload has {error.message}") from error

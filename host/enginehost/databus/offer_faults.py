"""What is wrong with a capability that somebody advertises, in words."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from enginehost.databus.offers import understand
from enginehost.databus.port import Capability
from enginehost.databus.struct import Kind
from enginehost.databus.types import FUNCTION_CAPABILITY
from enginehost.values import MalformedJson, decode

_MOST_SHOWN = 60


def faults_of(capability: Capability) -> Iterator[str]:
    """Everything about it that hosts or other peers trip over; nothing where it is well."""
    found = list(_own_faults(capability))
    yield from found
    judged = understand(capability).fault
    if judged and _subject(judged) not in map(_subject, found):
        yield judged


def _subject(fault: str) -> str:
    """The member that a fault is about: *its name is empty*."""
    return fault.split()[1]


def _own_faults(capability: Capability) -> Iterator[str]:
    yield from _of_ids(capability)
    for member in FUNCTION_CAPABILITY.members:
        if member.kind is not Kind.STRING:
            continue
        value: str = getattr(capability, member.name)
        size = len(value.encode(errors="replace"))
        if member.bound and size > member.bound:
            yield f"its {member.name} has {size:,} bytes, over {member.bound:,}: other peers drop it"
        if "\0" in value:
            yield f"its {member.name} has a NUL character in it: other peers read it cut off"
    yield from _of_schema(capability.parameter_schema)
    for name in ("capabilities", "performance_metrics", "security_requirements", "classification"):
        text: str = getattr(capability, name)
        if text and text[0] in "{[" and _parsed(text) is None:
            yield f"its {name} are no JSON"


def doubts_of(capability: Capability) -> Iterator[str]:
    """What works, and may go wrong one day."""
    if capability.function_id and not _is_uuid(capability.function_id):
        yield f"its function_id {shown(capability.function_id)} is no UUID: another program may have the same"


def is_shortened(capability: Capability) -> bool:
    """Whether its schema did not fit, and an open object with a comment stands in its place."""
    schema = _parsed(capability.parameter_schema) if capability.parameter_schema else None
    return isinstance(schema, dict) and set(schema) == {"type", "$comment"}


def shown(text: str, most: int = _MOST_SHOWN) -> str:
    """A text of a peer's in quotes, on one line and not too long."""
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")


def _of_ids(capability: Capability) -> Iterator[str]:
    if not capability.function_id:
        yield "its function_id is empty: nobody can call it"
    if not capability.name.strip() or not capability.name.isprintable():
        yield f"its name {shown(capability.name)} is no name that can be called"
    if not capability.provider_id:
        yield "its provider_id is empty"


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower() or uuid.UUID(text).hex == text.lower()
    except ValueError:
        return False


def _of_schema(text: str) -> Iterator[str]:
    if not text:
        return
    schema = _parsed(text)
    if schema is None:
        yield f"its parameter_schema is no JSON: {shown(text)}"
    elif not isinstance(schema, (dict, bool)):
        yield f"its parameter_schema is no JSON Schema: {shown(text)}"
    elif why := _refused(schema):
        yield f"its parameter_schema is no JSON Schema: {why}"


def _refused(schema: Any) -> str:
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(schema)
    except Exception as failure:  # noqa: BLE001 - peers choose the schema, and the library what it raises
        return shown(str(failure).partition("\n")[0], 120)
    return ""


def _parsed(text: str) -> Any:
    """The JSON value; ``None`` where it is none (or ``null``, which stands for nothing here either)."""
    try:
        return decode(text.encode())
    except (MalformedJson, UnicodeEncodeError):
        return None

"""What another host's capability says: a function that can be called, or why it cannot.

A peer writes what it likes. Nothing of it is believed before it has been looked at here.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from enginehost.databus.metadata import is_incarnation
from enginehost.databus.port import Capability
from enginehost.databus.types import FUNCTION_CAPABILITY
from enginehost.given_schema import schema_fault
from enginehost.signature import NO_PARAMETERS, Annotations, FunctionSignature, JsonSchema
from enginehost.values import MalformedJson, decode

MOST_TAGS = 100
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SCHEMAS_KEPT = 4_096
_schemas: dict[str, tuple[JsonSchema, str]] = {}
"""Schemas that were looked at, with what is wrong with each: hosts offer the same ones again and again."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One capability, understood.

    ``shape`` tells whether two providers offer the same function: the hash of its schema. ``incarnation`` is
    empty for a program that knows only the types. ``omitted``: the schema was too long for the type and
    can be asked for (``enginehost.describe``). ``fault`` says why it cannot be called; then there is no more
    than its names.
    """

    capability: Capability
    signature: FunctionSignature
    shape: str
    incarnation: str
    omitted: bool = False
    fault: str = ""

    @property
    def service(self) -> str:
        """The service that offers it."""
        return self.capability.service_name


def understand(capability: Capability) -> Offer:
    """What a capability says. It never raises: what is wrong with it is the offer's ``fault``."""
    if fault := _name_fault(capability):
        return _faulty(capability, fault)
    classification = _object(capability.classification)
    incarnation = _incarnation_in(classification)
    if incarnation and capability.function_id != _own_id(capability):
        return _faulty(capability, "its function_id is not the one that its provider and name make")
    schema, fault = _schema(capability.parameter_schema)
    if fault:
        return _faulty(capability, f"its parameter_schema is of no use: {fault}")
    return _offer(capability, schema, classification, incarnation)


def incarnation_of(capability: Capability) -> str:
    """The incarnation of the host that offers it, as it says; empty where it names none."""
    return _incarnation_in(_object(capability.classification))


def with_schema(offer: Offer, told: Mapping[str, Any]) -> Offer:
    """The offer with the signature that its provider told when it was asked."""
    schema: Any = told.get("parameters")
    fault = schema_fault(schema) if isinstance(schema, dict) else "no object"
    if fault or schema.get("type") != "object":
        return _faulty(offer.capability, f"the schema that its provider tells is of no use: {fault}")
    description: Any = told.get("description")
    result: Any = told.get("result")
    return replace(
        offer,
        omitted=False,
        signature=replace(
            offer.signature,
            parameters=schema,
            description=shown(description) if isinstance(description, str) else offer.signature.description,
            result=result if isinstance(result, dict) and schema_fault(result) is None else None,
        ),
    )


def shown(text: str) -> str:
    """A foreign text without what moves a terminal's cursor or turns the direction of what follows."""
    return _UNSEEN.sub("\ufffd", text)


def _offer(
    capability: Capability, schema: JsonSchema, classification: Mapping[str, Any], incarnation: str
) -> Offer:
    shape: Any = classification.get("schema")
    known = hashlib.sha256(capability.parameter_schema.encode(errors="replace")).hexdigest()[:16]
    told = incarnation != "" and isinstance(shape, str) and 0 < len(shape) <= 64
    return Offer(
        capability,
        FunctionSignature(
            name=f"{capability.service_name}.{capability.name}",
            description=shown(capability.description),
            parameters=schema,
            annotations=_annotations(classification.get("annotations")),
            streaming=classification.get("streaming") is True,
            tags=_tags(capability.capabilities),
        ),
        shape if told else known,
        incarnation,
        omitted=incarnation != "" and "$comment" in schema and not schema.get("properties"),
    )


def _incarnation_in(classification: Mapping[str, Any]) -> str:
    said: Any = classification.get("incarnation")
    return said if is_incarnation(said) else ""


def _faulty(capability: Capability, fault: str) -> Offer:
    return Offer(capability, FunctionSignature(capability.name[:256]), "", "", fault=fault)


def _own_id(capability: Capability) -> str:
    try:
        host = uuid.UUID(capability.provider_id)
    except ValueError:
        return ""
    return str(uuid.uuid5(host, f"{capability.service_name}\0{capability.name}"))


def _name_fault(capability: Capability) -> str:
    for member in ("function_id", "name", "provider_id", "service_name"):
        text: str = getattr(capability, member)
        if not text and member != "service_name":
            return f"its {member} is empty"
        size = len(text.encode(errors="replace"))
        if size > (bound := FUNCTION_CAPABILITY.bound(member)):
            return f"its {member} has {size} bytes, and may have {bound}"
        if text and not text.isprintable():
            return f"its {member} holds characters that cannot be shown"
    return ""


def _schema(text: str) -> tuple[JsonSchema, str]:
    known = _schemas.get(text)
    if known is None:
        if len(_schemas) >= _SCHEMAS_KEPT:
            _schemas.clear()
        known = _schemas[text] = _read_schema(text)
    return known


def _read_schema(text: str) -> tuple[JsonSchema, str]:
    if not text.strip():
        return NO_PARAMETERS, ""
    try:
        schema: Any = decode(text.encode())
    except (MalformedJson, UnicodeEncodeError):
        return NO_PARAMETERS, "it is no JSON"
    if not isinstance(schema, dict):
        return NO_PARAMETERS, "it is no JSON object"
    if not schema:
        return NO_PARAMETERS, ""
    if schema.get("type") != "object":
        return NO_PARAMETERS, "it is no schema of an object"
    required: Any = schema.get("required", [])
    if not isinstance(schema.get("properties", {}), dict) or not isinstance(required, list):
        return NO_PARAMETERS, "its properties or required are malformed"
    try:
        fault = schema_fault(schema)
    except RecursionError:
        fault = "it is nested too deep"
    return schema, fault or ""


def _annotations(said: Any) -> Annotations:
    if not isinstance(said, dict):
        return Annotations()
    title = said.get("title")
    hints = ("read_only", "destructive", "idempotent", "open_world")
    return Annotations(
        title=title if isinstance(title, str) else None,
        **{hint: said[hint] for hint in hints if isinstance(said.get(hint), bool)},
    )


def _tags(text: str) -> tuple[str, ...]:
    try:
        found: Any = decode(text.encode()) if text else []
    except (MalformedJson, UnicodeEncodeError):
        return ()
    named = found if isinstance(found, list) else []
    return tuple(tag for tag in named[:MOST_TAGS] if isinstance(tag, str) and tag.isprintable())


def _object(text: str) -> Mapping[str, Any]:
    try:
        found: Any = decode(text.encode()) if text else {}
    except (MalformedJson, UnicodeEncodeError):
        return {}
    return found if isinstance(found, dict) else {}

"""The signature that an smss file declares, with the rules of its calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.call_rules import read_approval, read_bind, read_limits, read_mcp
from enginehost.diagnostics import Severity
from enginehost.engine import Approval, Limits
from enginehost.given_schema import TYPE_HINT, default_fits, schema_fault, with_json_types
from enginehost.interpret import Declaration
from enginehost.json_values import kind_of
from enginehost.keys import PUBLIC_KEYS
from enginehost.parameter_list import object_schema, read_parameters, report_schema_fault
from enginehost.signature import UNREAD, Annotations, FunctionSignature, JsonSchema

_ANNOTATIONS = {
    "title": "title",
    "readonly": "read_only",
    "destructive": "destructive",
    "idempotent": "idempotent",
    "openworld": "open_world",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NO_TAG = re.compile(r"""[\[\](){}<>;"'`]""")
_TAG = re.compile(r"""[^,\[\](){}<>;:"'`\s]+(?:[ :]+[^,\[\](){}<>;:"'`\s]+)*""")
_NO_ANNOTATIONS = Annotations()
MAX_NAME = 256
"""Longest name of a function, in characters."""


@dataclass(frozen=True, slots=True)
class SignatureParts:
    """What :class:`~enginehost.engine.EngineContext` takes from a file; see there.

    ``signature`` is ``None`` where the file has no ``FUNCTION_NAME``. ``known`` is off where errors keep its
    parameters, or what is bound of them, from being read.
    """

    signature: FunctionSignature | None
    limits: Limits = field(default_factory=Limits)
    bind: Mapping[str, Any] = field(default_factory=dict)
    approval: Approval = Approval.NEVER
    coerce_text: bool = False
    known: bool = True


def read_signature(
    declaration: Declaration, *, required: bool = True, name_key: str = "", completed: bool = False
) -> SignatureParts:
    """The signature and its rules, as far as they can be read; errors stand in the declaration's diagnostics.

    ``required=False`` is for engines that can do without ``FUNCTION_NAME``; ``name_key`` and ``completed``
    are an engine class's ``name_key`` and ``completes_signature``. A file counts as
    SEMOSS-typed (``coerce_text``) when it writes ``parameterType`` or ``parameterName``: those are
    written by SEMOSS and its forms, whose callers send every argument as text.
    """
    limits, approval = read_limits(declaration), read_approval(declaration)
    before = len(declaration.diagnostics)
    if _report_secrets(declaration):
        return SignatureParts(None, limits, {}, approval, known=False)
    name = _read_name(declaration, required=required, name_key=name_key)
    completed_parameters = completed and not declaration.words("FUNCTION_PARAMETERS")
    parameters = read_parameters(declaration, completed=completed_parameters)
    bind = read_bind(declaration)
    signature = FunctionSignature(
        name=name,
        description=_read_description(declaration, completed=completed) if name else "",
        parameters=object_schema(declaration, parameters, bind, completed=completed_parameters),
        result=_read_result(declaration) if "FUNCTION_RESULT" in declaration else None,
        annotations=_read_annotations(declaration)
        if "FUNCTION_ANNOTATIONS" in declaration
        else _NO_ANNOTATIONS,
        tags=_read_tags(declaration) if "FUNCTION_TAGS" in declaration else (),
        mcp=read_mcp(declaration) if "FUNCTION_MCP" in declaration else "",
    )
    _check_defaults(declaration, signature.parameters)
    unread = any(map(declaration.is_unresolved, ("FUNCTION_NAME", "FUNCTION_TAGS")))
    errors = any(found.severity is Severity.ERROR for found in declaration.diagnostics[before:])
    known = not (unread or errors)
    return SignatureParts(signature if name else None, limits, bind, approval, parameters.semoss, known)


def _check_defaults(declaration: Declaration, parameters: JsonSchema) -> None:
    """Warn of defaults that their own schema refuses: a call that leaves the parameter out would fail."""
    properties = parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        if isinstance(schema, dict) and "default" in schema and not default_fits(schema):
            key = "FUNCTION_PARAMETERS"
            message = f"{key}: the default of {name} does not fit {name} itself"
            hint = "write a default that a caller could send, or none"
            declaration.warning(key, "default-mismatch", message, hint)


def _report_secrets(declaration: Declaration) -> bool:
    """Whether a key takes a secret that every caller would read."""
    found = [key for key in PUBLIC_KEYS if declaration.takes_secret(key)]
    for key in found:
        hint = "put it into a key that only the engine reads, or into FUNCTION_BIND"
        message = f"{key} takes a secret, and every caller reads {key}"
        declaration.error(key, "secret-in-public-key", message, hint)
    return bool(found)


def read_name(declaration: Declaration, *, complete: bool) -> FunctionSignature:
    """The function's name and tags, of a file whose signature as a whole cannot be read.

    That is enough to tell those who call it, and whom the policy lets know of it, why it cannot be called.
    What cannot be read is :data:`UNREAD`; so are tags beside those here where there is no name, unless the
    file is ``complete``: its engine has no other functions than it declares. Reports nothing.
    """
    found = list(declaration.diagnostics)
    name, (tags, sure) = declaration.words("FUNCTION_NAME"), _find_tags(declaration)
    declaration.diagnostics[:] = found
    unread = declaration.is_unresolved("FUNCTION_NAME") or "${" in name or len(name) > MAX_NAME
    if not name or unread or _CONTROL.search(name):
        name, sure = UNREAD, sure and complete
    return FunctionSignature(name, tags=(*tags,) if sure else (*tags, UNREAD))


def _read_name(declaration: Declaration, *, required: bool, name_key: str = "") -> str:
    if name_key and not declaration.words("FUNCTION_NAME"):
        name = declaration.words(name_key)
        if name and not declaration.is_unresolved(name_key):
            return name
    if not required and not declaration.words("FUNCTION_NAME"):
        return ""
    name = declaration.require("FUNCTION_NAME", hint="add FUNCTION_NAME: the name the function is called by")
    if len(name) > MAX_NAME or _CONTROL.search(name):
        message = f"FUNCTION_NAME is longer than {MAX_NAME} characters or holds control characters"
        declaration.error("FUNCTION_NAME", "bad-name", message, "use letters, digits, _ and -")
    return name


def _read_description(declaration: Declaration, *, completed: bool) -> str:
    description = declaration.words("FUNCTION_DESCRIPTION")
    if not description and not completed:
        hint = "say in one sentence what the function does: models choose by it"
        declaration.warning("FUNCTION_DESCRIPTION", "no-description", "FUNCTION_DESCRIPTION is missing", hint)
    return description


def _read_result(declaration: Declaration) -> JsonSchema | None:
    declared = declaration.json("FUNCTION_RESULT")
    if declared is None:
        return None
    if not isinstance(declared, dict):
        message = f"FUNCTION_RESULT has to be the object of a JSON Schema, not {kind_of(declared)}"
        declaration.error("FUNCTION_RESULT", "bad-schema", message, 'write {"type": "number"}')
        return None
    unknown: list[str] = []
    schema = with_json_types(cast("dict[str, Any]", declared), unknown)
    for word in unknown:
        message = f"FUNCTION_RESULT: the type {word[:80]!r} is not known; anything is allowed"
        declaration.warning("FUNCTION_RESULT", "unknown-type", message, TYPE_HINT)
    if fault := schema_fault(schema):
        report_schema_fault(declaration, "FUNCTION_RESULT", fault)
    return schema


def _read_annotations(declaration: Declaration) -> Annotations:
    key = "FUNCTION_ANNOTATIONS"
    declared = declaration.json(key)
    hint = 'write {"readOnly": true, "destructive": false}'
    if declared is None:
        return _NO_ANNOTATIONS
    if not isinstance(declared, dict):
        message = f"{key} has to be a JSON object, not {kind_of(declared)}"
        declaration.error(key, "bad-annotations", message, hint)
        return _NO_ANNOTATIONS
    values: dict[str, Any] = {}
    for word, value in cast("dict[str, Any]", declared).items():
        # MCP writes readOnlyHint
        field_name = _ANNOTATIONS.get(word.lower().replace("_", "").removesuffix("hint"))
        if field_name is None:
            message = f"{key}: {word!r} is unknown and has no effect"
            known = "there are title, readOnly, destructive, idempotent, openWorld"
            declaration.warning(key, "unknown-annotation", message, known)
        elif isinstance(value, str if field_name == "title" else bool):
            values[field_name] = value
        elif value is not None:
            wanted = "text" if field_name == "title" else "true or false"
            message = f"{key}: {word} has to be {wanted}, not {kind_of(value)}"
            declaration.error(key, "bad-annotations", message, hint)
    return Annotations(**values)


def _read_tags(declaration: Declaration) -> tuple[str, ...]:
    key = "FUNCTION_TAGS"
    before = len(declaration.diagnostics)
    tags, sure = _find_tags(declaration)
    if sure:
        return tags
    if len(declaration.diagnostics) == before and not declaration.is_unresolved(key):
        message = f"{key} has to be a list of words{declaration.quote(key)}"
        declaration.error(key, "bad-tags", message, 'write a, b or ["a", "b"]')
    return ()


def _find_tags(declaration: Declaration) -> tuple[tuple[str, ...], bool]:
    """The tags, and whether they are all: of what is no list, its words, for a policy that hides some."""
    key = "FUNCTION_TAGS"
    if key not in declaration:
        return (), True
    text = declaration.words(key)
    if declaration.takes_secret(key) or declaration.is_unresolved(key):
        return (), False
    tags: Any = declaration.json(key) if text.startswith("[") else text.split(",")
    is_list = isinstance(tags, list) and all(isinstance(tag, str) for tag in cast("list[Any]", tags))
    if not is_list or (not text.startswith("[") and _NO_TAG.search(text)):
        return tuple(dict.fromkeys(_TAG.findall(text))), False
    return tuple(dict.fromkeys(tag.strip() for tag in cast("list[str]", tags) if tag.strip())), True

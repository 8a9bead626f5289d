"""The body of an operation: its members as parameters, or one parameter for the whole."""

from __future__ import annotations

from json import dumps
from typing import Any, cast

from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.inputs import Inputs, as_text, described, kind_of
from enginehost_engines.openapi.schemas import Definition, Direction, Schemas
from enginehost_engines.rest.placement import Place

Schema = dict[str, Any]

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_SPREADABLE = frozenset(
    {"type", "properties", "required", "title", "description", "examples", "additionalProperties"}
    | {"deprecated", "allOf", "default", "readOnly", "writeOnly"}
)
"""What a body's schema may say whose members become parameters."""


def add_body(
    documents: Documents, schemas: Schemas, operation: Located, inputs: Inputs, *, older: bool
) -> None:
    """Put the body of an operation into ``inputs``. ``older``: the document is of OpenAPI 3.0."""
    node = documents.follow(operation.child("requestBody"))
    types = dict(node.child("content").items())
    if not types:
        return
    if inputs.method in ("GET", "HEAD") or (older and inputs.method == "DELETE"):
        inputs.note(node, f"a {inputs.method} with a body: servers may refuse it")
    chosen = _choose(list(types))
    if len(types) > 1:
        inputs.note(node.child("content"), f"of {len(types)} media types the request has {chosen}")
    media, essence = types[chosen], _essence(chosen)
    made = _converted(schemas, media.child("schema"))
    required = node.child("required").value is True
    description = node.text("description")
    if essence in (FORM, MULTIPART):
        _add_form(inputs, media, made, multipart=essence == MULTIPART)
    elif _is_json(essence):
        _add_json(inputs, node, media, made, essence, required=required, description=description)
    else:
        _add_raw(inputs, essence, made, required=required, description=description)


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _is_json(essence: str) -> bool:
    return essence.endswith(("/json", "+json")) or essence == "*/*"


def _choose(types: list[str]) -> str:
    def rank(media_type: str) -> int:
        essence = _essence(media_type)
        if essence == "application/json":
            return 0
        if _is_json(essence):
            return 1
        return {MULTIPART: 2, FORM: 3}.get(essence, 4)

    return min(types, key=rank)


def _converted(schemas: Schemas, node: Located) -> Definition:
    if node.value is None:
        return Definition({})
    return _merged(schemas.resolved(node, Direction.REQUEST), schemas)


def _merged(made: Definition, schemas: Schemas) -> Definition:
    """An object put together with ``allOf`` as one object, where its parts say nothing that collides."""
    schema = made.schema
    parts: Any = schema.get("allOf") if isinstance(schema, dict) else None
    if not isinstance(parts, list):
        return made
    result: Schema = {key: item for key, item in cast("Schema", schema).items() if key != "allOf"}
    references = dict(made.references)
    for part in cast("list[Any]", parts):
        opened = schemas.opened(part, Direction.REQUEST)
        if opened is None:
            return made
        opened = _merged(opened, schemas)
        one = opened.schema
        known: Schema = result.get("properties", {})
        if not isinstance(one, dict) or one.keys() - _SPREADABLE or "allOf" in one:
            return made
        members: Schema = one.get("properties", {})
        if any(known[name] != members[name] for name in known.keys() & members.keys()):
            return made
        references |= opened.references
        result["properties"] = {**known, **members}
        needed = dict.fromkeys([*result.get("required", []), *one.get("required", [])])
        if needed:
            result["required"] = list(needed)
        for key in ("type", "description", "additionalProperties"):
            if key in one:
                result.setdefault(key, one[key])
    return Definition(result, references, made.notes)


def _spread_members(schema: Any) -> Schema | None:
    """The members of an object that can be parameters; ``None`` where the whole has to be one."""
    if not isinstance(schema, dict) or kind_of(schema) != "object" or isinstance(schema.get("type"), list):
        return None
    members: Any = schema.get("properties")
    if not members or schema.keys() - _SPREADABLE or "allOf" in schema:
        return None
    if any(name != name.strip() or not name for name in members):
        return None
    return cast("Schema", members)


def _add_json(
    inputs: Inputs,
    node: Located,
    media: Located,
    made: Definition,
    essence: str,
    *,
    required: bool,
    description: str,
) -> None:
    members = _spread_members(made.schema)
    clash = members is not None and any(name.casefold() in inputs.taken for name in members)
    is_open: Any = made.schema.get("additionalProperties") if isinstance(made.schema, dict) else None
    takes_more = is_open not in (None, False)
    if members is None or clash or (takes_more and inputs.method not in ("POST", "PUT", "PATCH")):
        _add_whole_json(inputs, node, made, essence, required=required, description=description)
        return
    _take(inputs, made)
    needed: Any = made.schema.get("required", [])
    if needed and not required:
        inputs.note(node, "the body may be left out; here it is always sent, with its required members")
    for name, schema in members.items():
        inputs.add(name, Place.BODY, _without_default(schema), required=name in needed)
    if takes_more:
        inputs.is_open = is_open
    if essence not in ("application/json", "*/*"):
        inputs.headers["Content-Type"] = essence


def _add_whole_json(
    inputs: Inputs, node: Located, made: Definition, essence: str, *, required: bool, description: str
) -> None:
    _take(inputs, made)
    schema = described(made.schema, description or _text(made.schema, "description"))
    declared = schema.get("type")
    if declared == "string" or (isinstance(declared, list) and "string" in declared):
        inputs.note(node, "a body that is text has to be given as JSON: with its quotes")
        schema = as_text(schema, 'JSON text: "…"') if declared == "string" else schema
    inputs.content_type = "json" if essence in ("application/json", "*/*") else essence
    inputs.add("body", Place.RAW, _without_default(schema), required=required, name="body")


def _add_form(inputs: Inputs, media: Located, made: Definition, *, multipart: bool) -> None:
    _take(inputs, made)
    schema = made.schema if isinstance(made.schema, dict) else {}
    members: Schema = schema.get("properties", {})
    needed: Any = schema.get("required", [])
    if not members or schema.keys() - _SPREADABLE:
        inputs.note(media, "the form has members that the document does not name; they cannot be sent")
    inputs.content_type = MULTIPART if multipart else FORM
    for name, member in members.items():
        if not name or name != name.strip():
            inputs.note(media, f"the name of the member {name!r} begins or ends with a blank; it is left out")
            continue
        types = media.child("encoding").child(name).text("contentType")
        if multipart and _is_file(member, types):
            inputs.add(name, Place.FILE, _file_schema(member), required=name in needed)
            continue
        if kind_of(member) == "object":
            inputs.note(media, f"{name}: an object in a form travels as JSON text, without a type of its own")
        if media.child("encoding").child(name).text("style") not in ("", "form"):
            inputs.note(media, f"{name}: a list in a form travels as one field for each item")
        inputs.add(name, Place.FORM, _without_default(member), required=name in needed)


def _add_raw(inputs: Inputs, essence: str, made: Definition, *, required: bool, description: str) -> None:
    inputs.content_type = essence if "*" not in essence else "application/octet-stream"
    text = essence.startswith("text/") or essence.endswith(("xml", "yaml", "javascript"))
    schema: Schema = {"type": "string"} if text else {"type": "string", "contentEncoding": "base64"}
    words = description or _text(made.schema, "description")
    inputs.add("body", Place.RAW, described(schema, words), required=required, name="body")


def _take(inputs: Inputs, made: Definition) -> None:
    inputs.references |= made.references
    inputs.notes += made.notes


def _text(schema: Any, key: str) -> str:
    found = schema.get(key, "") if isinstance(schema, dict) else ""
    return found if isinstance(found, str) else ""


def _without_default(schema: Any) -> Any:
    """The schema with its default in words: the engine would send it, and so change what is there."""
    if not isinstance(schema, dict) or "default" not in schema:
        return schema
    result: Schema = {key: item for key, item in cast("Schema", schema).items() if key != "default"}
    words = (
        f"Default: {dumps(schema['default'])}." if isinstance(schema["default"], str | int | float) else ""
    )
    words = f"{_text(schema, 'description')} {words}".strip()
    return result | ({"description": words} if words else {})


def _is_file(schema: Any, media_type: str) -> bool:
    """Whether a member of a multipart form is a file (3.0: ``format: binary``; 3.1: its media type)."""
    if not isinstance(schema, dict):
        return bool(media_type)
    if kind_of(schema) == "array":
        return _is_file(schema.get("items", {}), media_type)
    if schema.get("format") == "binary":
        return True
    inner = _text(schema, "contentMediaType") or media_type.partition(",")[0]
    binary = bool(inner) and not inner.startswith("text/") and not _is_json(_essence(inner))
    return binary and kind_of(schema) == "scalar" and schema.get("type") in (None, "string")


def _file_schema(schema: Any) -> Schema:
    """A file as callers give it: base64, or an object with a name and a media type beside it."""
    one: Schema = {
        "type": ["string", "object"],
        "contentEncoding": "base64",
        "properties": {
            "content": {"type": "string", "contentEncoding": "base64"},
            "filename": {"type": "string"},
            "content_type": {"type": "string"},
        },
        "required": ["content"],
    }
    words = _text(schema, "description")
    words = f"{words} (base64, or an object with content in base64, filename and content_type)".strip()
    if kind_of(schema) == "array":
        return {"type": "array", "items": one, "contentEncoding": "base64", "description": words}
    return {**one, "description": words}

"""The parameters of an operation: path, query, headers and cookies, with their styles."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.faults import Unmappable
from enginehost_engines.openapi.inputs import Inputs, as_text, described, kind_of
from enginehost_engines.openapi.keywords import shortened
from enginehost_engines.openapi.schemas import Definition, Direction, Schemas
from enginehost_engines.rest.placement import FORBIDDEN_HEADERS, Place
from enginehost_engines.rest.wire import TOKEN

_PLACE = re.compile(r"\{([^{}]*)\}")
_NEVER_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""OpenAPI 3: parameters of these names are ignored."""
_NOT_HEADERS = FORBIDDEN_HEADERS | {"cookie", "accept-encoding"}
_SEPARATORS = {"form": "commas", "simple": "commas", "spaceDelimited": "blanks", "pipeDelimited": "|"}


class _Parameter(NamedTuple):
    node: Located
    name: str
    place: Place
    schema: Any
    style: str
    explode: bool
    is_json: bool
    required: bool

    @property
    def kind(self) -> str:
        return kind_of(self.schema)


def add_parameters(
    documents: Documents,
    schemas: Schemas,
    item: Located,
    operation: Located,
    inputs: Inputs,
    set_by_file: set[str],
) -> None:
    """Put the parameters of an operation (and its path) into ``inputs``.

    ``set_by_file`` has the headers (``header:x``, lower case), and so on, that credentials fill. Raises
    :class:`Unmappable` where a parameter that is needed cannot be sent.
    """
    declared: dict[tuple[str, str], Located] = {}
    for owner in (item, operation):
        for entry in owner.child("parameters").entries():
            node = documents.follow(entry)
            declared[node.text("in"), node.text("name")] = node
    found: list[_Parameter] = []
    for node in declared.values():
        if (problem := _problem(node, set_by_file)) is None:
            found.append(_read(documents, schemas, node, inputs))
        elif problem:
            _refuse(inputs, node, problem)
    inputs.query_style = _query_style(found)
    _add_path(inputs, item, [one for one in found if one.place is Place.PATH])
    for one in found:
        if one.place is Place.QUERY:
            _add_query(inputs, one)
        elif one.place is not Place.PATH:
            _add_plain(inputs, one)


def _problem(node: Located, set_by_file: set[str]) -> str | None:
    """Why a parameter is left out (``""``: it is filled in elsewhere); ``None`` where it is not."""
    name, place = node.text("name"), node.text("in")
    if place not in ("path", "query", "header", "cookie") or not name:
        return f"the parameter {name!r} in {place or 'no place'!r} is none of path, query, header and cookie"
    if name != name.strip():
        return f"the name of the parameter {name!r} begins or ends with a blank"
    if f"{place}:{name.lower() if place == 'header' else name}" in set_by_file:
        return ""
    if place == "header" and name.lower() in _NEVER_HEADERS:
        return ""
    if place == "header" and name.lower() in _NOT_HEADERS:
        return f"the header {name} belongs to the connection"
    if place in ("header", "cookie") and not TOKEN.fullmatch(name):
        return f"{name!r} is a name that no {place} has"
    return None


def _refuse(inputs: Inputs, node: Located, problem: str) -> None:
    if node.child("required").value is True:
        raise Unmappable(node.found(problem))
    inputs.note(node, f"{problem}; it is left out")


def _read(documents: Documents, schemas: Schemas, node: Located, inputs: Inputs) -> _Parameter:
    content = next(iter(node.child("content").items()), None)
    is_json = content is not None and "json" in content[0].lower()
    holder = documents.follow(content[1]) if content is not None else node
    place = Place(node.text("in"))
    default = "form" if place in (Place.QUERY, Place.COOKIE) else "simple"
    style = node.text("style") or default
    explode = node.child("explode").value
    if node.child("allowReserved").value is True:
        inputs.note(node, f"{node.text('name')}: reserved characters are percent-encoded all the same")
    return _Parameter(
        node,
        node.text("name"),
        place,
        _schema(schemas, holder.child("schema"), node, inputs),
        style,
        explode if isinstance(explode, bool) else style == "form",
        is_json,
        node.child("required").value is True,
    )


def _schema(schemas: Schemas, node: Located, parameter: Located, inputs: Inputs) -> Any:
    made = schemas.resolved(node, Direction.REQUEST) if node.value is not None else Definition({})
    inputs.references |= made.references
    inputs.notes += made.notes
    schema = described(
        made.schema,
        shortened(parameter.text("description")),
        deprecated=parameter.child("deprecated").value is True,
    )
    if "example" in parameter.value and "examples" not in schema:
        schema["examples"] = [parameter.value["example"]]
    return _with_usable_default(schema, parameter, inputs)


def _with_usable_default(schema: dict[str, Any], node: Located, inputs: Inputs) -> dict[str, Any]:
    """The schema without a default that does not fit it: the engine would send it."""
    rest = {key: item for key, item in schema.items() if key != "default"}
    if "default" not in schema or "'$ref': '#" in str(rest):
        return schema
    from jsonschema_rs import Draft202012Validator

    try:
        fits = Draft202012Validator(schema, offline=True).is_valid(schema["default"])
    except ValueError:
        fits = True
    if fits and schema["default"] is not None:
        return schema
    inputs.note(node, f"the default of {node.text('name')} does not fit its schema and is left out")
    return rest


def _query_style(found: list[_Parameter]) -> str:
    """The one ``QUERY_STYLE`` that serves most: what does not fit it becomes text, or several parameters."""
    needed = {_needs(one) for one in found if one.place is Place.QUERY}
    for style in ("deepObject", "exploded", "joined"):
        if style in needed:
            return style
    return "exploded"


def _needs(one: _Parameter) -> str:
    if one.kind == "scalar":
        return ""
    if one.is_json:
        return "exploded" if one.kind == "object" else ""
    if one.style == "deepObject":
        return "deepObject" if one.kind == "object" else "exploded"
    if one.kind == "array":
        return "exploded" if one.explode else "joined" if one.style == "form" else ""
    return "" if one.explode else "joined"


def _add_path(inputs: Inputs, item: Located, found: list[_Parameter]) -> None:
    by_name = {one.name: one for one in found}
    used: dict[str, str] = {}

    def place(match: re.Match[str]) -> str:
        name = match[1]
        if name in used:
            return used[name]
        one = by_name.get(name)
        schema: Any = {"type": "string"}
        if one is None:
            inputs.note(item, f"{{{name}}} in the path is not declared; it is taken for text")
        else:
            schema = one.schema
            if one.kind != "scalar":
                how = "one text, as it stands in the path; values are separated by commas"
                inputs.note(one.node, f"{name}: a list or an object in the path has to be given as text")
                schema = as_text(schema, how)
        made = inputs.add(name, Place.PATH, schema, required=True)
        head = {"label": ".", "matrix": f";{name}="}.get(one.style if one else "", "")
        used[name] = f"{head}{{{made.name}}}"
        return used[name]

    inputs.url = _PLACE.sub(place, inputs.url)
    for name in by_name.keys() - used.keys():
        inputs.note(by_name[name].node, f"the path does not hold {{{name}}}; the parameter is left out")


def _add_query(inputs: Inputs, one: _Parameter) -> None:
    needs, style = _needs(one), inputs.query_style
    if one.kind == "scalar" or (
        needs and (needs == style or (one.kind == "array" and style != "joined" and needs == "exploded"))
    ):
        if one.is_json and one.kind == "scalar":
            inputs.note(one.node, f"{one.name}: the value has to be given as JSON text")
        inputs.add(one.name, Place.QUERY, one.schema, required=one.required)
    elif one.kind == "object" and not one.is_json and (members := _scalar_members(one.schema)) is not None:
        _spread(inputs, one, members)
    elif one.is_json:
        inputs.note(one.node, f"{one.name}: the value has to be given as JSON text")
        inputs.add(one.name, Place.QUERY, as_text(one.schema, "JSON text"), required=one.required)
    else:
        separator = _SEPARATORS.get(one.style, "commas")
        inputs.note(
            one.node, f"{one.name}: the values have to be given as one text, separated by {separator}"
        )
        schema = as_text(one.schema, f"values separated by {separator}")
        inputs.add(one.name, Place.QUERY, schema, required=one.required)


def _scalar_members(schema: Any) -> dict[str, Any] | None:
    """The members of an object that can stand in a query one by one; ``None`` where they cannot."""
    members: Any = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(members, dict) or schema.get("additionalProperties") not in (None, False):
        return None
    named = cast("dict[str, Any]", members)
    if any(kind_of(member) != "scalar" or "$ref" in str(member) for member in named.values()):
        return None
    return named


def _spread(inputs: Inputs, one: _Parameter, members: dict[str, Any]) -> None:
    """The members of an object as parameters of their own: that is how they stand in the query."""
    needed: Any = one.schema.get("required", []) if one.required else []
    for name, schema in members.items():
        wire = f"{one.name}[{name}]" if one.style == "deepObject" else name
        inputs.add(wire, Place.QUERY, described(schema, ""), required=name in needed)


def _add_plain(inputs: Inputs, one: _Parameter) -> None:
    """A header or a cookie."""
    schema = one.schema
    if one.is_json:
        inputs.note(one.node, f"{one.name}: the value has to be given as JSON text")
        schema = as_text(schema, "JSON text")
    elif one.kind != "scalar":
        inputs.note(one.node, f"{one.name}: the values have to be given as one text, separated by commas")
        schema = as_text(schema, "values separated by commas")
    inputs.add(one.name, one.place, schema, required=one.required)

"""From a document to operations that the REST engine can carry out, each on its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.errors import ConfigError
from enginehost.signature import Annotations, FunctionSignature
from enginehost_engines.openapi.bodies import add_body
from enginehost_engines.openapi.calling import rest_config
from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.faults import Found, Unmappable, broken
from enginehost_engines.openapi.inputs import Inputs
from enginehost_engines.openapi.keywords import shortened
from enginehost_engines.openapi.names import free_name, function_name, is_wanted
from enginehost_engines.openapi.parameters import add_parameters
from enginehost_engines.openapi.results import Result, result_of
from enginehost_engines.openapi.schemas import Direction, Schemas, fault_of
from enginehost_engines.openapi.security import Security, security_of
from enginehost_engines.openapi.servers import Server, server_of
from enginehost_engines.rest.placement import Place
from enginehost_engines.rest.request import make_plan

METHODS = ("get", "head", "post", "put", "patch", "delete")
"""The methods that the REST engine has."""
OTHER_METHODS = ("options", "trace", "query")
MOST_OPERATIONS = 50_000

_ANNOTATIONS: Mapping[str, Annotations] = {
    "GET": Annotations(read_only=True, idempotent=True),
    "HEAD": Annotations(read_only=True, idempotent=True),
    "POST": Annotations(read_only=False),
    "PUT": Annotations(read_only=False, idempotent=True),
    "PATCH": Annotations(read_only=False),
    "DELETE": Annotations(read_only=False, destructive=True, idempotent=True),
}
"""What RFC 9110 says of each method; of the others nothing is said."""

STREAM_CLASS = "prerna.engine.impl.function.StreamRESTFunctionEngine"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which operations are wanted (see :func:`~enginehost_engines.openapi.names.is_wanted`), and how."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prefix: str = ""
    tags: tuple[str, ...] = ()
    base_url: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as a function. ``rest`` are the keys of the REST engine but for URL and credentials."""

    name: str
    method: str
    path: str
    server: Server
    url: str
    """What follows the server's URL: the path, with the names of the function's parameters."""
    signature: FunctionSignature
    """With the parameters that credentials fill in."""
    rest: Mapping[str, Any]
    security: Security
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Parameters that no caller sees → the secret that fills them in."""
    notes: tuple[Found, ...] = ()

    @property
    def streams(self) -> bool:
        """Whether the answer comes item by item."""
        return self.signature.streaming


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation before it is looked at: where it stands, and its name."""

    name: str
    method: str
    path: str
    item: Located
    node: Located

    @property
    def origin(self) -> str:
        """Method and path, for people."""
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Contents:
    """The operations that a document has, in its order, and what was found of the whole."""

    entries: list[Entry] = field(default_factory=list)
    notes: list[Found] = field(default_factory=list)
    skipped: list[tuple[str, Found]] = field(default_factory=list)


def version_of(documents: Documents) -> str:
    """``3.0`` or ``3.1``. Raises :class:`ConfigError` for what is no OpenAPI document of these."""
    root = documents.root
    name = documents.name
    if not isinstance(root.value, dict):
        raise broken("this is no OpenAPI document", name=name, hint="it has to be an object with `openapi`")
    if "swagger" in root.value:
        hint = "convert it: npx swagger2openapi, or Edit > Convert to OpenAPI 3 at editor.swagger.io"
        raise broken(
            f"this is Swagger {str(root.value['swagger'])[:20]}; OpenAPI 3 is read", name=name, hint=hint
        )
    version = str(root.value.get("openapi", ""))
    for known in ("3.0", "3.1", "3.2"):
        if version == known or version.startswith(f"{known}."):
            return "3.0" if known == "3.0" else "3.1"
    problem = (
        f"OpenAPI {version[:20]} is not read"
        if version
        else "this is no OpenAPI document: `openapi` is missing"
    )
    raise broken(problem, name=name, hint="versions 3.0 and 3.1 are read")


def contents_of(documents: Documents, selection: Selection) -> Contents:
    """The operations that are wanted. Names do not depend on the selection. Raises :class:`ConfigError`."""
    version_of(documents)
    contents = Contents()
    if documents.root.child("webhooks").value:
        note = "webhooks are requests that the service makes; none became a function"
        contents.notes.append(documents.root.child("webhooks").found(note))
    if str(documents.root.value["openapi"]).startswith("3.2"):
        contents.notes.append(documents.root.child("openapi").found("OpenAPI 3.2 is read as 3.1"))
    taken: set[str] = set()
    seen: set[str] = set()
    for count, (method, path, item, node) in enumerate(_operations(documents, contents), 1):
        if count > MOST_OPERATIONS:
            raise broken(f"there are more than {MOST_OPERATIONS} operations", name=documents.name)
        operation_id = node.text("operationId")
        if operation_id and operation_id in seen:
            contents.notes.append(node.found(f"the operationId {operation_id[:80]!r} is there twice"))
        seen.add(operation_id)
        name = free_name(function_name(operation_id, method, path, selection.prefix), taken)
        taken.add(name.casefold())
        names = (name, name.removeprefix(selection.prefix))
        if is_wanted(names, method, path, _tags(node), selection.include, selection.exclude):
            contents.entries.append(Entry(name, method, path, item, node))
    return contents


def _operations(documents: Documents, contents: Contents) -> Iterator[tuple[str, str, Located, Located]]:
    for path, listed in documents.root.child("paths").items():
        if path.startswith("x-"):
            continue
        try:
            item = documents.follow(listed)
        except Unmappable as error:
            contents.skipped.append((path, error.found))
            continue
        for method, node in item.items():
            if method in METHODS and isinstance(node.value, dict):
                yield method.upper(), path, item, node
            elif method in METHODS:
                contents.skipped.append((f"{method.upper()} {path}", node.found("this is no operation")))
            elif method in OTHER_METHODS:
                word = method.upper()
                contents.skipped.append((f"{word} {path}", node.found(f"the REST engine has no {word}")))


def _tags(node: Located) -> tuple[str, ...]:
    listed = node.child("tags").value
    words = cast("list[Any]", listed) if isinstance(listed, list) else []
    return tuple(dict.fromkeys(word.strip() for word in words if isinstance(word, str) and word.strip()))


class Mapper:
    """Makes operations of entries; what they share of the document is converted once."""

    def __init__(self, documents: Documents, selection: Selection) -> None:
        self._documents = documents
        self._selection = selection
        self._older = version_of(documents) == "3.0"
        self._schemas = Schemas(documents)

    def operation(self, entry: Entry) -> Operation:
        """The operation of ``entry``. Raises :class:`Unmappable` where it cannot become a function."""
        try:
            return self._operation(entry)
        except ConfigError as error:
            raise Unmappable(entry.node.found(error.message)) from None
        except RecursionError:
            raise Unmappable(entry.node.found("its schemas are nested too deep")) from None

    def _operation(self, entry: Entry) -> Operation:
        documents, schemas, node = self._documents, self._schemas, entry.node
        notes: list[Found] = []
        if not entry.path.startswith("/"):
            raise Unmappable(entry.node.found("its path does not begin with a slash"))
        nodes = [node, entry.item, documents.root]
        server = server_of(documents, nodes, self._selection.base_url, notes)
        security = security_of(documents, node, notes)
        inputs = Inputs(entry.method, _path(entry, notes))
        add_parameters(documents, schemas, entry.item, node, inputs, _filled(security))
        add_body(documents, schemas, node, inputs, older=self._older)
        hidden = _hide(inputs, security)
        result = result_of(documents, schemas, node, entry.method)
        if node.child("callbacks").value:
            notes.append(node.child("callbacks").found("callbacks are requests that the service makes"))
        signature = self._signature(entry, inputs, result, notes)
        if result.accept and not any(one.wire.lower() == "accept" for one in inputs.items):
            inputs.headers["Accept"] = result.accept
        made = Operation(
            name=entry.name,
            method=entry.method,
            path=entry.path,
            server=server,
            url=inputs.url,
            signature=signature,
            rest=_rest_keys(inputs),
            security=security,
            hidden=hidden,
            notes=(*notes, *_distinct([*inputs.notes, *result.notes])),
        )
        _check(made)
        return made

    def _signature(
        self, entry: Entry, inputs: Inputs, result: Result, notes: list[Found]
    ) -> FunctionSignature:
        node = entry.node
        definitions = self._schemas.bundle(inputs.references, Direction.REQUEST, inputs.notes, node)
        parameters = inputs.schema(definitions)
        if fault := fault_of(parameters):
            raise Unmappable(node.found(f"its parameters make no usable schema: {fault}"))
        answer = result.schema
        if answer is not None and (fault := fault_of(answer)):
            notes.append(node.child("responses").found(f"its result has no usable schema: {fault}"))
            answer = None
        deprecated = node.child("deprecated").value is True
        tags = (*_tags(node), *self._selection.tags, *(("deprecated",) if deprecated else ()))
        title = " ".join(node.text("summary").split())[:200]
        base = _ANNOTATIONS[entry.method]
        return FunctionSignature(
            entry.name,
            description=_description(entry, deprecated=deprecated),
            parameters=parameters,
            result=answer,
            annotations=Annotations(
                title or None, base.read_only, base.destructive, base.idempotent, open_world=True
            ),
            streaming=result.streams,
            tags=tuple(dict.fromkeys(tags)),
        )


def _description(entry: Entry, *, deprecated: bool) -> str:
    summary, more = entry.node.text("summary").strip(), entry.node.text("description").strip()
    if more.startswith(summary):
        summary = ""
    text = "\n\n".join(part for part in (summary, more) if part) or entry.origin
    return shortened(f"Deprecated. {text}" if deprecated else text)


def _path(entry: Entry, notes: list[Found]) -> str:
    path = entry.path
    if "#" in path:
        raise Unmappable(entry.node.found("its path has a fragment (#)"))
    if "?" in path:
        notes.append(
            entry.node.found("its path has a query, which OpenAPI does not know; it is sent as it is")
        )
    return path.replace(" ", "%20")


def _filled(security: Security) -> set[str]:
    """The places that credentials fill, as :func:`add_parameters` takes them."""
    header = security.keys.get("API_KEY_HEADER_NAME", "Authorization" if security.keys else "")
    places = {place if not place.startswith("header:") else place.lower() for place in security.bound}
    return places | ({f"header:{header.lower()}"} if header else set())


def _hide(inputs: Inputs, security: Security) -> dict[str, str]:
    hidden: dict[str, str] = {}
    for place, secret in security.bound.items():
        word, _, wire = place.partition(":")
        made = inputs.add(wire, Place(word), {"type": "string"}, required=True)
        hidden[made.name] = secret
    return hidden


def _rest_keys(inputs: Inputs) -> dict[str, Any]:
    keys: dict[str, Any] = {"HTTP_METHOD": inputs.method}
    if placements := inputs.placements():
        keys["PARAMETER_PLACEMENT"] = placements
    if inputs.query_style != "exploded":
        keys["QUERY_STYLE"] = inputs.query_style
    if inputs.content_type is not None:
        keys["CONTENT_TYPE"] = inputs.content_type
    if inputs.headers:
        keys["HEADERS"] = inputs.headers
    return keys


def _distinct(notes: Iterable[Found]) -> Sequence[Found]:
    return tuple(dict.fromkeys(notes))


def _check(operation: Operation) -> None:
    """Make the plan that the engine would make, so that nothing is written that does not open."""
    config = rest_config(operation, {}, stand_in=True)
    make_plan(config, operation.signature, ())

"""The body of a request: JSON, form, multipart with files, or one raw value.

Which of them is decided when the file is loaded; :meth:`Body.render` is pure.
"""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote_plus

from enginehost.errors import ConfigError
from enginehost.values import encode
from enginehost_engines.rest.placement import Place, Placement
from enginehost_engines.rest.wire import form_fields

KEY = "BODY_CONSTANTS"

Values = list[tuple[Placement, Any]]
"""The values given for a body, each with its place."""


class Body(Protocol):
    """Makes bodies of one kind."""

    def render(self, values: Values) -> tuple[bytes, str]:
        """The body and its media type (empty: none)."""
        ...


@dataclass(frozen=True, slots=True)
class NoBody:
    """Nothing is sent."""

    def render(self, values: Values) -> tuple[bytes, str]:
        """Nothing."""
        return b"", ""


@dataclass(frozen=True, slots=True)
class JsonBody:
    """One JSON object: the constants, the parameters as members, or at the end of their pointers."""

    constants: Mapping[str, Any]
    deep: bool

    def render(self, values: Values) -> tuple[bytes, str]:
        """The object; a ``None`` that the caller gave is ``null``."""
        document: Any = copy.deepcopy(self.constants) if self.deep else dict(self.constants)
        for placement, value in values:
            put(document, placement.pointer or (placement.name,), value)
        return encode(document), "application/json"


@dataclass(frozen=True, slots=True)
class FormBody:
    """``application/x-www-form-urlencoded``."""

    constants: Mapping[str, Any]

    def render(self, values: Values) -> tuple[bytes, str]:
        """The pairs: constants that no parameter replaces first."""
        pairs = [f"{quote_plus(k)}={quote_plus(v)}" for k, v in _fields(self.constants, values)]
        return "&".join(pairs).encode(), "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class MultipartBody:
    """``multipart/form-data``: files, and fields beside them."""

    constants: Mapping[str, Any]
    base64_parameters: frozenset[str]

    def render(self, values: Values) -> tuple[bytes, str]:
        """The parts; a list gives one file per item."""
        from httpx2 import Request

        files = [
            (placement.name, file_part(item, placement.parameter in self.base64_parameters))
            for placement, value in values
            if placement.place is Place.FILE
            for item in (value if isinstance(value, list) else [value])
        ]
        fields: dict[str, list[str]] = {}
        for name, value in _fields(self.constants, [v for v in values if v[0].place is not Place.FILE]):
            fields.setdefault(name, []).append(value)
        parts = [(name, (None, value.encode())) for name, items in fields.items() for value in items]
        request = Request("POST", "http://multipart", files=[*parts, *files])
        return request.read(), request.headers["content-type"]


@dataclass(frozen=True, slots=True)
class RawBody:
    """The value itself: bytes and text as they are, anything else as JSON."""

    media_type: str
    decode_base64: bool = field(default=False)

    def render(self, values: Values) -> tuple[bytes, str]:
        """The value's bytes."""
        if not values:
            return b"", ""
        value = values[0][1]
        if isinstance(value, str) and self.decode_base64:
            value = _from_base64(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value), self.media_type or "application/octet-stream"
        if isinstance(value, str):
            return value.encode(), self.media_type or "text/plain; charset=utf-8"
        return encode(value), self.media_type or "application/json"


def choose_body(
    placements: Iterable[Placement],
    content_type: str | None,
    constants: Mapping[str, Any],
    base64_parameters: frozenset[str],
    sends_body: bool,
) -> Body:
    """The kind of body that the placements ask for; :class:`ConfigError` where they contradict each other.

    ``sends_body``: a function without parameters sends an empty object or form too, as SEMOSS does.
    """
    inside = [placement for placement in placements if placement.place.in_body]
    places = {placement.place for placement in inside}
    if Place.RAW in places:
        return _raw(inside, content_type, constants, base64_parameters)
    pointers = [placement for placement in inside if placement.pointer]
    as_json = content_type is None or content_type.strip().casefold() == "json"
    if pointers and (not as_json or places != {Place.BODY}):
        raise _clash(
            f"{pointers[0].parameter!r} has a JSON Pointer, but the body is no JSON", "CONTENT_TYPE=json"
        )
    if Place.FILE in places or (inside and _is_multipart(content_type)):
        return MultipartBody(constants, base64_parameters)
    if Place.FORM in places or not as_json:
        return FormBody(constants) if inside or constants or sends_body else NoBody()
    if not (inside or constants or sends_body):
        return NoBody()
    _rehearse(inside, constants)
    return JsonBody(constants, deep=bool(pointers))


def _is_multipart(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().casefold() == "multipart/form-data"


def _raw(
    inside: list[Placement], content_type: str | None, constants: Mapping[str, Any], decode: frozenset[str]
) -> RawBody:
    if len(inside) > 1 or constants:
        raise _clash(
            f"{inside[0].parameter!r} is the raw body, so nothing else can be in it", "drop the others"
        )
    media = (content_type or "").strip()
    if media.casefold() == "json":
        media = "application/json"
    return RawBody(media if "/" in media else "", inside[0].parameter in decode)


def _rehearse(inside: list[Placement], constants: Mapping[str, Any]) -> None:
    """Put every parameter once, so that places that exclude each other are found at load."""
    marker = object()
    document: Any = copy.deepcopy(dict(constants))
    for placement in inside:
        try:
            put(document, placement.pointer or (placement.name,), marker)
        except ValueError:
            raise _clash(
                f"the place of {placement.parameter!r} in the body lies inside another value"
            ) from None
    for placement in inside:
        if find(document, placement.pointer or (placement.name,)) is not marker:
            raise _clash(f"the place of {placement.parameter!r} in the body is also that of others")


def put(document: Any, pointer: tuple[str, ...], value: Any) -> None:
    """Set the value at ``pointer``, with the objects on the way; an index must exist in its list."""
    *way, last = pointer
    for token in way:
        match document:
            case list():
                document = document[_index(document, token)]
            case dict():
                document = document.setdefault(token, {})
            case _:
                break
    match document:
        case list():
            document[_index(document, last)] = value
        case dict():
            document[last] = value
        case _:
            raise ValueError("has its place inside a value that is neither object nor list")


def find(document: Any, pointer: tuple[str, ...]) -> Any:
    """The value at ``pointer``; :class:`ValueError` where there is none."""
    for token in pointer:
        if isinstance(document, list):
            document = document[_index(document, token)]
        elif isinstance(document, Mapping) and token in document:
            document = document[token]
        else:
            raise ValueError("nothing is there")
    return document


def _index(items: list[Any], token: str) -> int:
    if not (token.isascii() and token.isdigit()) or int(token) >= len(items):
        raise ValueError("has its place beyond the end of a list")
    return int(token)


def _fields(constants: Mapping[str, Any], values: Values) -> list[tuple[str, str]]:
    given = {placement.name for placement, _ in values}
    fixed = [
        pair for name, item in constants.items() if name not in given for pair in form_fields(name, item)
    ]
    return fixed + [
        pair
        for placement, value in values
        if value is not None
        for pair in form_fields(placement.name, value)
    ]


def file_part(value: Any, decode_base64: bool) -> tuple[str, bytes] | tuple[str, bytes, str]:
    """A file from bytes, text, or ``{"content", "filename"?, "content_type"?}``."""
    if not isinstance(value, Mapping):
        return "file", _content(value, decode_base64)
    if "content" not in value:
        raise ValueError("must have 'content' to be a file")
    name, media_type = str(value.get("filename") or "file"), str(value.get("content_type") or "")
    if any(char in '"\\' or not char.isprintable() for char in name + media_type):
        raise ValueError("has a file name or content type with quotes, backslashes or control characters")
    content = _content(value["content"], decode_base64)
    return (name, content, media_type) if media_type else (name, content)


def _content(value: Any, decode_base64: bool) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return _from_base64(value) if decode_base64 else value.encode()
    raise ValueError("must be bytes or text to be a file")


def _from_base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("must be base64") from None


def _clash(problem: str, hint: str = "") -> ConfigError:
    return ConfigError(f"PARAMETER_PLACEMENT: {problem}", hint=hint, reason="bad-placement")

"""The body of a request: JSON, form, multipart with files, or one raw value.

Which of them is decided when the file is loaded; :meth:`Body.render` is pure.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Protocol, TypeVar

from enginehost.errors import ConfigError
from enginehost.values import encode
from enginehost_engines.rest.files import FilePart, content_of, file_part
from enginehost_engines.rest.placement import Place, Placement
from enginehost_engines.rest.wire import form_fields, form_pairs

KEY = "BODY_CONSTANTS"

Field = TypeVar("Field")
Write = Callable[[str, Any, str], Iterable[Field]]
"""Gives the fields of a name and a value, in a style."""

Values = list[tuple[Placement, Any]]
"""The values given for a body, each with its place."""


class Unfit(ValueError):
    """A value cannot be a part of the body; ``parameter`` is whose it is."""

    def __init__(self, parameter: str, problem: ValueError) -> None:
        super().__init__("holds a lone surrogate" if isinstance(problem, UnicodeError) else str(problem))
        self.parameter = parameter


class Body(Protocol):
    """Makes bodies of one kind. :class:`ValueError`, or :class:`Unfit`, where it cannot carry a value."""

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
    style: str = "exploded"

    def render(self, values: Values) -> tuple[bytes, str]:
        """The pairs: constants that no parameter replaces first."""
        pairs = _fields(form_pairs, self.constants, values, self.style)
        return "&".join(pairs).encode(), "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class MultipartBody:
    """``multipart/form-data``: files, and fields beside them."""

    constants: Mapping[str, Any]
    base64_parameters: frozenset[str]
    style: str = "exploded"

    def render(self, values: Values) -> tuple[bytes, str]:
        """The parts; a list gives one file per item."""
        from httpx2 import Request

        files = [part for value in values if value[0].place is Place.FILE for part in self._files(*value)]
        fields = [value for value in values if value[0].place is not Place.FILE]
        parts = _fields(form_fields, self.constants, fields, self.style)
        if not parts and not files:
            boundary = token_hex(16)
            return f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
        request = Request("POST", "http://multipart", files=[*((n, (None, v)) for n, v in parts), *files])
        return request.read(), request.headers["content-type"]

    def _files(self, placement: Placement, value: Any) -> Iterator[tuple[str, FilePart]]:
        for item in value if isinstance(value, list) else [value]:
            try:
                yield placement.name, file_part(item, placement.parameter in self.base64_parameters)
            except ValueError as error:
                raise Unfit(placement.parameter, error) from None


@dataclass(frozen=True, slots=True)
class RawBody:
    """The value itself: bytes and text as they are, anything else as JSON."""

    media_type: str
    decode_base64: bool = field(default=False)

    def render(self, values: Values) -> tuple[bytes, str]:
        """The value's bytes."""
        if not values:
            return b"", ""
        placement, value = values[0]
        try:
            return self._rendered(value)
        except ValueError as error:
            raise Unfit(placement.parameter, error) from None

    def _rendered(self, value: Any) -> tuple[bytes, str]:
        if self.decode_base64:
            value = content_of(value, decode_base64=True)
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
    style: str = "exploded",
) -> Body:
    """The kind of body that the placements ask for; :class:`ConfigError` where they contradict each other.

    ``sends_body``: a function without parameters sends an empty object or form too, as SEMOSS does.
    ``style``: how lists and objects stand in a form.
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
        _rehearse_form("PARAMETER_PLACEMENT", {part.name: "" for part in inside}, style, form_fields)
        _rehearse_form(KEY, constants, style, form_fields)
        return MultipartBody(constants, base64_parameters, style)
    if Place.FORM in places or not as_json:
        _rehearse_form(KEY, constants, style, form_pairs)
        return FormBody(constants, style) if inside or constants or sends_body else NoBody()
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


def _rehearse_form(key: str, constants: Mapping[str, Any], style: str, write: Write[Any]) -> None:
    """Write the constants once, so that what a form cannot hold is found at load."""
    try:
        _fields(write, constants, [], style)
    except ValueError as error:
        message = f"{key}: the form {error} (FORM_STYLE = {style})"
        raise ConfigError(message, key=key, reason="bad-placement") from None


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


def _fields(
    write: Callable[[str, Any, str], Iterable[Field]],
    constants: Mapping[str, Any],
    values: Values,
    style: str,
) -> list[Field]:
    """The fields of a form, which has no null: constants that no parameter replaces first."""
    given = {placement.name for placement, _ in values}
    fields = [
        field
        for name, item in constants.items()
        if name not in given and item is not None
        for field in write(name, item, style)
    ]
    for placement, value in values:
        if value is not None:
            try:
                fields += write(placement.name, value, style)
            except ValueError as error:
                raise Unfit(placement.parameter, error) from None
    return fields


def _clash(problem: str, hint: str = "") -> ConfigError:
    return ConfigError(f"PARAMETER_PLACEMENT: {problem}", hint=hint, reason="bad-placement")

"""Where each parameter goes in the request: read from ``PARAMETER_PLACEMENT``, checked at load."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from enginehost.errors import ConfigError
from enginehost_engines.rest.wire import TOKEN

KEY = "PARAMETER_PLACEMENT"

FORBIDDEN_HEADERS = frozenset(
    [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "proxy-connection",
        "proxy-authorization",
    ]
)
"""Headers that decide where a message goes and where it ends: no file and no value sets them."""

_MOST_NAMED = 20
_QUERY_METHODS = frozenset({"GET", "HEAD", "DELETE"})
_ENCODED = "encoded"
_DEEPEST = 64
_BAD_TILDE = re.compile(r"~(?![01])")


class Place(StrEnum):
    """A part of a request that can carry a parameter."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"
    BODY = "body"
    FORM = "form"
    FILE = "file"
    RAW = "raw"

    @property
    def in_body(self) -> bool:
        """Whether it is a part of the body."""
        return self in (Place.BODY, Place.FORM, Place.FILE, Place.RAW)


@dataclass(frozen=True, slots=True)
class Placement:
    """One parameter's place. ``name`` is its name on the wire; ``pointer`` its way into a JSON body."""

    parameter: str
    place: Place
    name: str
    pointer: tuple[str, ...] = ()
    encoded: bool = False
    """Whether a value in the path may hold slashes, which travel as ``%2F``."""


def default_place(method: str) -> Place:
    """Where a parameter goes that nothing else places (SEMOSS's rule, with DELETE and PATCH)."""
    return Place.QUERY if method in _QUERY_METHODS else Place.BODY


def read_placements(
    declared: Mapping[str, str], parameters: Iterable[str], in_url: frozenset[str], method: str
) -> tuple[Placement, ...]:
    """The place of each of ``parameters``; :class:`ConfigError` where the file contradicts itself."""
    names = dict.fromkeys(parameters)
    for name in [*declared, *sorted(in_url)]:
        if name not in names:
            key = KEY if name in declared else "API_ENDPOINT_URL"
            raise ConfigError(
                f"{key} names {name!r}, which is no parameter of the function",
                hint=f"declared are: {', '.join(islice(names, _MOST_NAMED)) or 'none'}",
                reason="undeclared-parameter",
            )
    placements = tuple(_placement(name, declared.get(name), in_url, method) for name in names)
    _refuse_doubles(placements)
    return placements


def check_places(declared: Mapping[str, str]) -> None:
    """Raise :class:`ConfigError` for the first place that there is not, whatever else the file says."""
    for name, text in declared.items():
        if text.partition(":")[0].strip().casefold() != Place.PATH:
            _parse(name, text.strip())


def _placement(name: str, text: str | None, in_url: frozenset[str], method: str) -> Placement:
    if name in in_url:
        word, _, rest = (text or Place.PATH).casefold().partition(":")
        if word.strip() != Place.PATH or rest.strip() not in ("", _ENCODED):
            raise _wrong(name, f"is {text!r}, but the URL holds {{{name}}}", "write path, or path:encoded")
        return Placement(name, Place.PATH, name, encoded=rest.strip() == _ENCODED)
    if text is None:
        return Placement(name, default_place(method), name)
    return _parse(name, text.strip())


def _parse(name: str, text: str) -> Placement:
    word, _, rest = text.partition(":")
    try:
        place = Place(word.strip().casefold())
    except ValueError:
        raise _wrong(name, f"is {text!r}", f"places are: {', '.join(Place)}") from None
    rest = rest.strip()
    if place is Place.PATH:
        raise _wrong(name, "is path, but the URL does not hold it", f"write {{{name}}} into API_ENDPOINT_URL")
    if place is Place.RAW and rest:
        raise _wrong(name, f"is {text!r}", "a raw body has no name")
    if place is Place.BODY and rest.startswith("/"):
        return Placement(name, place, name, read_pointer(name, rest))
    wire_name = rest or name
    if place in (Place.HEADER, Place.COOKIE):
        _check_token(name, place, wire_name)
    return Placement(name, place, wire_name)


def _check_token(name: str, place: Place, wire_name: str) -> None:
    if not TOKEN.fullmatch(wire_name):
        raise _wrong(name, f"gives a {place} a name it cannot have", f"write {place}:Name")
    if place is Place.HEADER and wire_name.lower() in (
        *FORBIDDEN_HEADERS,
        "cookie",
        "content-type",
        "accept-encoding",
    ):
        raise _wrong(name, f"sets the header {wire_name}, which no parameter may set")


def read_pointer(name: str, text: str) -> tuple[str, ...]:
    """The tokens of an RFC 6901 JSON Pointer that is not empty."""
    if _BAD_TILDE.search(text):
        raise _wrong(name, f"has the malformed JSON Pointer {text!r}", "write ~0 for ~ and ~1 for /")
    if text.count("/") > _DEEPEST:
        raise _wrong(name, f"has a JSON Pointer of more than {_DEEPEST} parts")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])


def _refuse_doubles(placements: tuple[Placement, ...]) -> None:
    taken: dict[tuple[Place, object], str] = {}
    for placement in placements:
        name = placement.name.lower() if placement.place is Place.HEADER else placement.name
        key = (placement.place, placement.pointer or name)
        if key in taken:
            raise _wrong(placement.parameter, f"is the place of {taken[key]!r} too")
        taken[key] = placement.parameter


def _wrong(name: str, problem: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{KEY}: the place of {name!r} {problem}", hint=hint, reason="bad-placement")

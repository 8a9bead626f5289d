"""From arguments to the bytes of a request: a plan made at load, filled at each call. No I/O here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from enginehost import __version__
from enginehost.errors import ConfigError, InvalidArguments
from enginehost.signature import FunctionSignature
from enginehost_engines.rest.auth import auth_header
from enginehost_engines.rest.body import Body, Unfit, choose_body
from enginehost_engines.rest.config import RestConfig
from enginehost_engines.rest.files import is_base64
from enginehost_engines.rest.headers import check_header
from enginehost_engines.rest.placement import Place, Placement, default_place, read_placements
from enginehost_engines.rest.url import Endpoint, Origin, parse
from enginehost_engines.rest.wire import cookie_pair, header_value, query_pairs, text

Headers = tuple[tuple[bytes, bytes], ...]

_MISSING: Any = object()
_DEFAULT_HEADERS = {
    "accept": ("Accept", "*/*"),
    "accept-encoding": ("Accept-Encoding", "gzip, deflate"),
    "user-agent": ("User-Agent", f"enginehost/{__version__}"),
}
"""Ours, by lower-case name."""
_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
QUERY_SAFE = "%/!$&'()*+,;=:@?~[]"
"""What stays as it is in a path and query that a service gave."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request as it goes out. ``target`` is path and query; ``headers`` are complete."""

    method: str
    origin: Origin
    target: bytes
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about the requests of one engine that does not depend on the arguments."""

    method: str
    endpoint: Endpoint
    placements: tuple[Placement, ...]
    defaults: Mapping[str, Any]
    headers: Headers
    cookie: str
    body: Body
    sends_type: bool
    """Whether the body's own media type is sent (the file's ``Content-Type`` header replaces it)."""
    query_style: str
    redirects: str
    encoded: frozenset[str]
    """Parameters in the path whose values may hold slashes."""
    extras: Place | None
    """Where arguments go that are not declared; ``None``: they are refused."""
    reserved: frozenset[str]

    def message(self, arguments: Mapping[str, Any]) -> Message:
        """The request for these arguments; :class:`InvalidArguments` where a place cannot carry its value."""
        parts = _Parts()
        for placement in self._all_placements(arguments):
            name = placement.parameter
            value = arguments.get(name, _MISSING)
            if value is _MISSING:
                value = self.defaults.get(name, _MISSING)
                if value is _MISSING:
                    continue
            try:
                parts.put(placement, value, self.query_style)
            except ValueError as error:
                raise _refusal(name, error) from None
        return self._assemble(parts)

    def _all_placements(self, arguments: Mapping[str, Any]) -> Iterable[Placement]:
        known = {placement.parameter for placement in self.placements}
        extra = [name for name in arguments if name not in known]
        if not extra:
            return self.placements
        for name in extra:
            if self.extras is None or name in self.reserved:
                raise _refusal(name, ValueError("is not a parameter"))
        return (*self.placements, *(Placement(name, self.extras or Place.QUERY, name) for name in extra))

    def _assemble(self, parts: _Parts) -> Message:
        target = self._target(parts)
        body, media_type = self._render(parts)
        headers = [*self.headers, *parts.headers]
        cookies = [self.cookie, *parts.cookies] if self.cookie else parts.cookies
        if cookies:
            headers.append((b"Cookie", "; ".join(cookies).encode()))
        if media_type and self.sends_type:
            headers.append((b"Content-Type", media_type.encode()))
        if body or self.method in _BODY_METHODS:
            headers.append((b"Content-Length", b"%d" % len(body)))
        return Message(self.method, self.endpoint.origin, target, tuple(headers), body)

    def _target(self, parts: _Parts) -> bytes:
        endpoint = self.endpoint
        for name in endpoint.names:
            if name not in parts.path:
                raise _refusal(name, ValueError("is needed: the address holds it"))
        try:
            path, own = endpoint.path(parts.path, self.encoded), endpoint.own_query(parts.path)
        except ValueError as error:
            raise _refusal(_culprit(endpoint, parts.path, self.encoded), error) from None
        query = "&".join([own, *parts.query]) if own else "&".join(parts.query)
        return (f"{path}?{query}" if query else path).encode("ascii")

    def _render(self, parts: _Parts) -> tuple[bytes, str]:
        try:
            return self.body.render(parts.body)
        except ValueError as error:
            raise _refusal(error.parameter if isinstance(error, Unfit) else "", error) from None


class _Parts:
    """What one call's arguments add to the request."""

    __slots__ = ("body", "cookies", "headers", "path", "query")

    def __init__(self) -> None:
        self.path: dict[str, str] = {}
        self.query: list[str] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.cookies: list[str] = []
        self.body: list[tuple[Placement, Any]] = []

    def put(self, placement: Placement, value: Any, query_style: str) -> None:
        place = placement.place
        if place is Place.BODY or place is Place.FORM:
            self.body.append((placement, value))
        elif value is None:
            return  # a place outside the body has no null: leaving it out is the nearest
        elif place is Place.QUERY:
            self.query.extend(query_pairs(placement.name, value, query_style))
        elif place is Place.PATH:
            self.path[placement.parameter] = text(value)
            self.path[placement.parameter].encode()
        elif place is Place.HEADER:
            self.headers.append((placement.name.encode(), header_value(text(value))))
        elif place is Place.COOKIE:
            self.cookies.append(cookie_pair(placement.name, text(value)))
        else:
            self.body.append((placement, value))


def _culprit(endpoint: Endpoint, values: Mapping[str, str], encoded: frozenset[str]) -> str:
    """The parameter whose value made the path impossible."""
    for parts in endpoint.segments:
        try:
            replace(endpoint, segments=(parts,)).path(values, encoded)
        except ValueError:
            return next(part.name for part in parts if part.name)
    return ""


def _refusal(name: str, error: ValueError) -> InvalidArguments:
    problem = "holds a lone surrogate" if isinstance(error, UnicodeError) else str(error)
    pointer = "/" + name.replace("~", "~0").replace("/", "~1") if name else ""
    message = f"{name!r} {problem}" if name else problem
    return InvalidArguments(message, errors=[{"pointer": pointer, "message": problem}])


def make_plan(config: RestConfig, signature: FunctionSignature, bound: Iterable[str] = ()) -> Plan:
    """Read the file once; :class:`ConfigError` names the key that is wrong.

    ``bound`` are the parameters the host fills in, which the signature does not show.
    """
    endpoint = parse(config.api_endpoint_url)
    method = config.http_method
    properties = signature.properties
    turned = [config.pagination.parameter] if config.pagination and config.pagination.parameter else []
    names = [*properties, *bound, *turned]
    placements = read_placements(config.parameter_placement, names, endpoint.names, method)
    fixed = _fixed_headers(config)
    _refuse_collisions(placements, fixed, endpoint)
    cookie = fixed.pop("cookie", ("", ""))[1]
    chosen = {placement.name.lower() for placement in placements if placement.place is Place.HEADER}
    encoded = frozenset(name for name, schema in properties.items() if is_base64(schema))
    is_open = bool(
        signature.parameters.get("additionalProperties") or signature.parameters.get("patternProperties")
    )
    body = choose_body(
        placements,
        config.content_type,
        config.body_constants,
        encoded,
        sends_body=method in _BODY_METHODS and (is_open or not placements),
        style=config.form_style,
    )
    return Plan(
        method=method,
        endpoint=endpoint,
        placements=placements,
        defaults={
            n: s["default"] for n, s in properties.items() if isinstance(s, Mapping) and "default" in s
        },
        headers=_own_headers(fixed, chosen, endpoint.origin),
        cookie=cookie,
        body=body,
        sends_type="content-type" not in fixed,
        query_style=config.query_style,
        redirects=config.follow_redirects,
        encoded=frozenset(placement.parameter for placement in placements if placement.encoded),
        extras=default_place(method) if is_open else None,
        reserved=endpoint.query_keys
        | set(config.body_constants)
        | {placement.name for placement in placements}
        | {placement.pointer[0] for placement in placements if placement.pointer},
    )


def _fixed_headers(config: RestConfig) -> dict[str, tuple[str, str]]:
    """The headers that the file sets, by lower-case name; the credentials come last."""
    fixed: dict[str, tuple[str, str]] = {}
    for name, value in config.headers.items():
        fixed[name.lower()] = (name, text(value))
    header = auth_header(config)
    if header is not None:
        check_header(*header, "API_KEY_HEADER_NAME" if header[0] != "Authorization" else "AUTH")
        fixed[header[0].lower()] = header
    return fixed


def _own_headers(fixed: Mapping[str, tuple[str, str]], chosen: set[str], origin: Origin) -> Headers:
    """The headers that no argument decides: the file's, and ours that no parameter sets (``chosen``)."""
    if not fixed and not chosen:
        return _default_headers(origin)
    defaults = {name: header for name, header in _DEFAULT_HEADERS.items() if name not in chosen}
    return _wire_headers({**defaults, **fixed}, origin)


@lru_cache(1024)
def _default_headers(origin: Origin) -> Headers:
    return _wire_headers(_DEFAULT_HEADERS, origin)


def _wire_headers(fixed: Mapping[str, tuple[str, str]], origin: Origin) -> Headers:
    host = fixed.get("host", ("Host", origin.authority))
    rest = [header for name, header in fixed.items() if name != "host"]
    return tuple((name.encode(), value.encode()) for name, value in (host, *rest))


def _refuse_collisions(
    placements: Iterable[Placement], fixed: Mapping[str, object], endpoint: Endpoint
) -> None:
    """A parameter may not stand beside, or replace, what the file itself says."""
    query_keys = endpoint.query_keys
    for placement in placements:
        where = ""
        if placement.place is Place.HEADER and placement.name.lower() in fixed:
            where = f"the header {placement.name}"
        elif placement.place is Place.QUERY and placement.name in query_keys:
            where = f"{placement.name!r} in the query of the URL"
        if where:
            raise ConfigError(
                f"PARAMETER_PLACEMENT: {placement.parameter!r} would set {where}, which the file sets itself",
                hint="rename one of them, or place the parameter elsewhere",
                reason="bad-placement",
            )


def redirected(
    message: Message, status: int, origin: Origin, target: str, *, any_method: bool
) -> Message | None:
    """The request that follows a redirect (RFC 9110, 15.4): after 303, and a POST after 301 or 302, a GET.

    ``None`` where that would do again what is neither a GET nor a HEAD, or drop it, without ``any_method``.
    """
    if status != 303 and not any_method and message.method not in ("GET", "HEAD"):
        return None
    path = quote(target, safe=QUERY_SAFE).encode()
    becomes_get = message.method != "HEAD" if status == 303 else status < 303 and message.method == "POST"
    if not becomes_get:
        return replace(message, origin=origin, target=path)
    kept = tuple(header for header in message.headers if not header[0].lower().startswith(b"content-"))
    return Message("GET", origin, path, kept, b"")

"""What proves who calls: the security schemes of an operation as keys of the REST engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.faults import Found, Unmappable
from enginehost_engines.rest.config import AuthKind
from enginehost_engines.rest.placement import FORBIDDEN_HEADERS
from enginehost_engines.rest.wire import TOKEN


@dataclass(slots=True)
class Security:
    """``keys`` are keys of the REST engine; a value that is in :attr:`secrets` names a secret.

    ``bound`` are credentials that no key carries (an API key in the query or a cookie): the place on the
    wire, and the secret's name.
    """

    keys: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)

    @property
    def is_none(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.keys or self.bound)


def security_of(documents: Documents, operation: Located, notes: list[Found]) -> Security:
    """The first way in that the REST engine can go; what else there is stands in ``notes``."""
    node = operation.child("security")
    if not isinstance(node.value, list):
        node = documents.root.child("security")
    ways = list(node.entries())
    for way in ways:
        lost: list[Found] = []
        found = _way(documents, way, lost)
        if not lost:
            if len(ways) > 1:
                shown = " + ".join(way.value) if way.value else "no credentials"
                notes.append(node.found(f"of {len(ways)} ways to prove who calls the file has {shown}"))
            notes += _advice(documents, way, found)
            return found
    for way in ways[:1]:
        return _way(documents, way, notes)
    return Security()


def _way(documents: Documents, way: Located, lost: list[Found]) -> Security:
    security = Security()
    for name, scopes in way.items():
        try:
            scheme = documents.follow(documents.root.child("components").child("securitySchemes").child(name))
        except Unmappable as error:
            lost.append(error.found)
            continue
        if not isinstance(scheme.value, dict):
            lost.append(scopes.found(f"there is no security scheme {name!r}"))
        elif problem := _add(security, name, scheme, scopes.value):
            lost.append(scheme.found(f"the security scheme {name!r} {problem}"))
    return security


def _add(security: Security, name: str, scheme: Located, scopes: Any) -> str:
    """Put a scheme into ``security``; why that cannot be, else ``""``."""
    kind, word = scheme.text("type"), scheme.text("scheme").lower()
    if kind == "apiKey":
        return _api_key(security, name, scheme)
    flow = scheme.child("flows").child("clientCredentials")
    if kind == "oauth2" and flow.text("tokenUrl") and "oauth2_client_credentials" in get_args(AuthKind):
        return _client_credentials(security, name, flow, scopes)
    if "AUTH" in security.keys:
        return "stands beside another that needs the same header"
    if kind == "http" and word == "basic":
        security.keys |= {"AUTH": "basic", "AUTH_USERNAME": "", "AUTH_PASSWORD": ""}
        security.secrets |= {"AUTH_USERNAME": f"{name}-username", "AUTH_PASSWORD": f"{name}-password"}
    elif (kind == "http" and word == "bearer") or kind in ("oauth2", "openIdConnect"):
        security.keys |= {"AUTH": "bearer", "AUTH_TOKEN": ""}
        security.secrets["AUTH_TOKEN"] = name
    else:
        return f"({kind} {word}".rstrip() + ") is none that the REST engine knows"
    return ""


def _client_credentials(security: Security, name: str, flow: Located, scopes: Any) -> str:
    if "AUTH" in security.keys:
        return "stands beside another that needs the same header"
    security.keys |= {
        "AUTH": "oauth2_client_credentials",
        "AUTH_TOKEN_URL": flow.text("tokenUrl"),
        "AUTH_CLIENT_ID": "",
        "AUTH_CLIENT_SECRET": "",
    }
    if isinstance(scopes, list) and scopes:
        security.keys["AUTH_SCOPE"] = " ".join(map(str, scopes))
    security.secrets |= {"AUTH_CLIENT_ID": f"{name}-client-id", "AUTH_CLIENT_SECRET": f"{name}-client-secret"}
    return ""


def _api_key(security: Security, name: str, scheme: Located) -> str:
    wire, place = scheme.text("name"), scheme.text("in")
    if place not in ("header", "query", "cookie") or not wire:
        return "names neither header, query nor cookie"
    if place != "query" and not TOKEN.fullmatch(wire):
        return f"has a name that no {place} has"
    if place == "header" and wire.lower() in FORBIDDEN_HEADERS:
        return f"sets the header {wire}, which belongs to the connection"
    if place == "header" and not security.keys:
        security.keys |= {"AUTH": "api_key", "API_KEY_HEADER_NAME": wire, "API_KEY_VALUE": ""}
        security.secrets["API_KEY_VALUE"] = name
    else:
        security.bound[f"{place}:{wire}"] = name
    return ""


def _advice(documents: Documents, way: Located, security: Security) -> list[Found]:
    """What people have to know of a way that is taken."""
    gets_tokens = security.keys.get("AUTH") == "oauth2_client_credentials"
    found: list[Found] = []
    schemes = documents.root.child("components").child("securitySchemes")
    for name, scopes in way.items():
        scheme = schemes.child(name)
        kind = scheme.text("type")
        if kind in ("oauth2", "openIdConnect"):
            wanted: Any = scopes.value
            words = f" with {', '.join(map(str, wanted))}" if isinstance(wanted, list) and wanted else ""
            needs = "a client id and secret, with which tokens are got" if gets_tokens else f"a token{words}"
            found.append(scheme.found(f"{name} is {kind}: it needs {needs}"))
    return found


def secret_keys(security: Security) -> Mapping[str, str]:
    """Key → name of the secret that it takes."""
    return security.secrets

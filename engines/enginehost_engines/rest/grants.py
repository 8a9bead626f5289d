"""Requests for access tokens (RFC 6749), made by authlib."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus

from enginehost_engines.rest.request import Message
from enginehost_engines.rest.url import parse

if TYPE_CHECKING:
    from authlib.oauth2.auth import ClientAuth

    from enginehost_engines.rest.transport import PoolSettings


@dataclass(frozen=True, slots=True)
class Grant:
    """How tokens are got: engines with equal grants share them. ``kind`` is the ``grant_type``."""

    kind: str
    url: str
    client_id: str
    settings: PoolSettings
    client_secret: str = field(default="", repr=False)
    client_method: str = "basic"
    scope: str = ""
    audience: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    seconds: float = 10.0
    """How long a token may take to come."""

    @property
    def host(self) -> str:
        """Who gives tokens."""
        return parse(self.url).origin.authority


def token_request(grant: Grant, refresh_token: str) -> Message:
    """The request for a token (RFC 6749, 4.3, 4.4 and 6)."""
    from authlib.oauth2.rfc6749.parameters import prepare_token_request

    own = {
        "password": {"username": grant.username, "password": grant.password},
        "refresh_token": {"refresh_token": refresh_token},
    }
    wanted = {"scope": grant.scope, "audience": grant.audience}
    fields = own.get(grant.kind, {}) | {name: value for name, value in wanted.items() if value}
    body = prepare_token_request(grant.kind, "", **fields)
    return _addressed(grant.url, *_with_client(grant, body))


def _with_client(grant: Grant, body: str) -> tuple[str, dict[str, str]]:
    """Who asks, by ``AUTH_CLIENT_METHOD``; a client without a secret only says its name."""
    from authlib.oauth2.auth import ClientAuth

    def basic(client: ClientAuth, method: str, uri: str, headers: dict[str, str], body: str) -> Any:
        # RFC 6749, 2.3.1: both are encoded as in forms before they are joined
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return uri, headers, body

    method: Any = basic if grant.client_method == "basic" else "client_secret_post"
    if not grant.client_secret:
        method = "none"
    auth = ClientAuth(grant.client_id, grant.client_secret, method)
    _, headers, body = auth.prepare("POST", grant.url, {}, body)
    return body, cast("dict[str, str]", headers)


def _addressed(url: str, body: str, headers: Mapping[str, str]) -> Message:
    endpoint = parse(url)
    path, query = endpoint.path({}, frozenset()), endpoint.own_query({})
    data = body.encode()
    lines = {
        "Host": endpoint.origin.authority,
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(data)),
        **headers,
    }
    return Message(
        "POST",
        endpoint.origin,
        (f"{path}?{query}" if query else path).encode(),
        tuple((name.encode(), value.encode()) for name, value in lines.items()),
        data,
    )

"""An OpenID Connect issuer on loopback, and tokens that it signs."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from joserfc.jwk import JWKRegistry
from joserfc.jws import JWSRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

KINDS = {
    "RS256": ("RSA", 2048),
    "PS256": ("RSA", 2048),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}


def make_key(algorithm: str, kid: str) -> Any:
    kind, size = KINDS[algorithm]
    return JWKRegistry.generate_key(kind, size, {"kid": kid, "use": "sig"})  # type: ignore[call-overload]


class Issuer:
    """An OpenID Connect issuer on loopback, as far as a verifier sees one."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.fetches = 0
        self.status = 200
        self.claimed: str | None = None
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        routes = [
            Route("/.well-known/openid-configuration", self.discovery),
            Route("/keys", self.key_set),
            Route("/redirect", lambda _: RedirectResponse("/keys")),
            Route("/huge", lambda _: Response(b" " * (2 << 20))),
            Route("/text", lambda _: Response(b"[" * 100_000)),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))

    def discovery(self, request: Request) -> Response:
        return JSONResponse({"issuer": self.claimed or self.url, "jwks_uri": f"{self.url}/keys"})

    def key_set(self, request: Request) -> Response:
        self.fetches += 1
        shared = [{"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}, {"kty": "AKP", "kid": "new"}, "odd"]
        return JSONResponse(
            {"keys": [*shared, *(k.as_dict(private=False) for k in self.keys.values())]}, self.status
        )

    def token(
        self, kid: str = "rsa", algorithm: str = "RS256", header: Any = (), key: Any = None, **claims: Any
    ) -> str:
        now = int(time.time())
        body = {"iss": self.url, "aud": "us", "sub": "alice", "iat": now, "exp": now + 600, **claims}
        body = {name: value for name, value in body.items() if value is not None}
        full = {"alg": algorithm, "typ": "JWT", "kid": kid, **dict(header)}
        full = {name: value for name, value in full.items() if value is not None}
        return sign(full, json.dumps(body).encode(), key or self.keys[kid])


def sign(header: dict[str, Any], payload: bytes, key: Any) -> str:
    """Sign what no honest library would let through: the header says whatever it says."""
    algorithm = JWSRegistry.algorithms[header["alg"]]
    head, body = (
        base64.urlsafe_b64encode(part).rstrip(b"=") for part in (json.dumps(header).encode(), payload)
    )
    signature = algorithm.sign(head + b"." + body, key)
    return b".".join((head, body, base64.urlsafe_b64encode(signature).rstrip(b"="))).decode()


@contextmanager
def running_issuer() -> Generator[Issuer]:
    made = Issuer()
    made.thread.start()
    try:
        yield made
    finally:
        made.server.should_exit = True
        made.thread.join(10)
        made.socket.close()


@contextmanager
def closed_issuer() -> Generator[Issuer]:
    """One at whose address nobody listens; the port stays taken, so that nobody else comes to."""
    made = Issuer()
    made.socket.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        made.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        yield made

"""Finds out who calls: from the ``Authorization`` header, for every face that has one.

No header is an anonymous caller. A header whose proof does not hold is an error, never anonymous:
a client that means to be somebody should hear that it is not.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from enginehost.address import is_loopback, parse_address
from enginehost.caller import Caller, anonymous
from enginehost.errors import ConfigError, Unauthorized
from enginehost.tokens import Proof, TokenTable, digest_of

if TYPE_CHECKING:
    from enginehost.jwt import JwtVerifier
    from enginehost.settings import HostSettings

MAX_VERIFIED = 4096
"""Verified JWTs that are remembered."""
MAX_VERIFIED_SECONDS = 300.0
"""How long a verified JWT is trusted unseen, so that a withdrawn key stops counting."""
_TOKEN = re.compile(r"[\x21-\x7e]+")


class Authenticator:
    """Turns ``Authorization`` headers into callers by the tokens and issuers of the settings.

    Raises :class:`~enginehost.errors.ConfigError` for a token that cannot be read. ``verifier`` checks
    JWTs (by default one for the issuers in the settings), ``now`` gives Unix seconds.
    """

    def __init__(
        self,
        settings: HostSettings,
        *,
        environ: Mapping[str, str] | None = None,
        verifier: JwtVerifier | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = TokenTable(settings.tokens, os.environ if environ is None else environ)
        self._verifier = verifier or _verifier(settings)
        self._now = now
        self._authenticates = settings.authenticates
        self._verified: dict[bytes, Proof] = {}
        self._anonymous: dict[str, Caller] = {}

    def authenticate_now(self, header: str | None, face: str) -> Caller | None:
        """The caller, where nothing has to be waited for; ``None``: ask :meth:`authenticate`.

        Raises :class:`~enginehost.errors.Unauthorized`.
        """
        if header is None:
            return self._anonymous.get(face) or self._nobody(face)
        token = bearer_token(header)
        digest = digest_of(token)
        proof = self._tokens.find(digest) or self._still_verified(digest)
        if proof is not None:
            return proof.through(face)
        if self._verifier is None or token.count(".") != 2:
            raise Unauthorized("the token is not known here", detail={"reason": "unknown"})
        return None

    async def authenticate(self, header: str | None, face: str) -> Caller:
        """The caller behind ``header`` (``Bearer TOKEN``), who came through ``face``.

        Raises :class:`~enginehost.errors.Unauthorized`, or
        :class:`~enginehost.errors.EngineUnavailable` while a JWT's issuer does not answer.
        """
        caller = self.authenticate_now(header, face)
        if caller is not None or header is None or self._verifier is None:
            return caller or self._nobody(face)
        token = bearer_token(header)
        proof = await self._verifier.verify(token)
        self._keep(digest_of(token), proof)
        return proof.through(face)

    def _nobody(self, face: str) -> Caller:
        caller = anonymous(face, may_prove=self._authenticates)
        return self._anonymous.setdefault(face, caller)

    def _still_verified(self, digest: bytes) -> Proof | None:
        proof = self._verified.get(digest)
        if proof is None or self._now() < proof.expires:
            return proof
        del self._verified[digest]
        return None

    def _keep(self, digest: bytes, proof: Proof) -> None:
        if len(self._verified) >= MAX_VERIFIED:
            del self._verified[next(iter(self._verified))]
        proof.expires = min(proof.expires, self._now() + MAX_VERIFIED_SECONDS)
        self._verified[digest] = proof


def _verifier(settings: HostSettings) -> JwtVerifier | None:
    if not settings.oidc:
        return None
    from enginehost.jwt import JwtVerifier

    return JwtVerifier(settings.oidc, {token.name for token in settings.tokens})


def bearer_token(header: str) -> str:
    """The token in ``Bearer TOKEN`` (RFC 6750). Raises :class:`~enginehost.errors.Unauthorized`."""
    scheme, _, token = header.strip().partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
        raise Unauthorized("the Authorization header has to be: Bearer TOKEN", detail={"reason": "scheme"})
    return token


def check_binding(settings: HostSettings, address: str) -> None:
    """Refuse to be reachable without knowing callers: HTTP beyond loopback needs tokens or oidc.

    Raises :class:`~enginehost.errors.ConfigError`, also for what is no address.
    """
    try:
        host, _ = parse_address(address)
    except ValueError as error:
        raise ConfigError(f"http.address: {error}") from None
    if not is_loopback(host) and not settings.authenticates:
        raise ConfigError(
            f"HTTP on {address} is reachable from other machines, and nobody could be told from anybody",
            hint="set up tokens or oidc in enginehost.yaml, or listen on 127.0.0.1",
            reason="open-binding",
        )

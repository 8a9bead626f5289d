"""Checks JWTs of trusted issuers (RFC 7519, RFC 8725, RFC 9068) and reads the caller from them."""

from __future__ import annotations

import base64
import binascii
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key
from joserfc.jws import JWSRegistry

from enginehost.caller import RESERVED_SUBJECTS, Caller
from enginehost.errors import Unauthorized
from enginehost.jwks import Fetch, IssuerKeys, fetch_json
from enginehost.tokens import Proof

if TYPE_CHECKING:
    from enginehost.auth_settings import OidcSettings

MAX_LENGTH = 16 << 10
"""Characters a JWT may have."""
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_MAX_CANDIDATES = 8
"""Keys tried for a token that names none."""


class Unverified(NamedTuple):
    """What a token claims before anything is known of its signature."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]


def refused(reason: str, message: str) -> Unauthorized:
    """The error for a token that does not hold; ``reason`` is its stable short name."""
    return Unauthorized(message, detail={"reason": reason})


def read_unverified(token: str) -> Unverified:
    """Header and claims of ``token``. Raises :class:`~enginehost.errors.Unauthorized` if it is no JWT."""
    parts = token.split(".")
    if len(token) > MAX_LENGTH or len(parts) != 3:
        raise refused("malformed", "the token is no JWT")
    return Unverified(_object(parts[0]), _object(parts[1]))


def _object(part: str) -> Mapping[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise refused("malformed", "the token is no JWT")
    return cast("dict[str, Any]", value)


class JwtVerifier:
    """Checks tokens of the issuers in the settings. ``now`` gives Unix seconds.

    ``taken`` are subjects that are somebody else's: nobody becomes them by a JWT.
    """

    def __init__(
        self,
        issuers: Sequence[OidcSettings],
        taken: Iterable[str] = (),
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        fetch: Fetch = fetch_json,
    ) -> None:
        self._now = now
        self._taken = RESERVED_SUBJECTS.union(taken)
        self._keys = {one.issuer: IssuerKeys(one, clock=clock, fetch=fetch) for one in issuers}

    async def verify(self, token: str) -> Proof:
        """Who the token speaks for.

        Raises :class:`~enginehost.errors.Unauthorized` with the reason, or
        :class:`~enginehost.errors.EngineUnavailable` when the issuer's keys cannot be had.
        """
        header, claims = read_unverified(token)
        keys = self._keys.get(claims["iss"]) if isinstance(claims.get("iss"), str) else None
        if keys is None:
            raise refused("issuer", "the token's issuer is not trusted here")
        issuer = keys.issuer
        algorithm = _algorithm(header, issuer)
        # cheap checks first: a token that fails them may not cause a fetch
        expires = check_claims(claims, issuer, self._now())
        candidates = await keys.matching(_kid(header), algorithm)
        if not candidates:
            raise refused("key", "the token is signed with a key that its issuer does not have")
        if not any(_is_signed(token, key, algorithm) for key in candidates[:_MAX_CANDIDATES]):
            raise refused("signature", "the token's signature is wrong")
        caller = read_caller(claims, issuer)
        if caller.subject in self._taken or self._is_another_issuers(caller.subject, issuer):
            raise refused("subject", "the token's subject is somebody else's name here")
        return Proof(caller, expires)

    def _is_another_issuers(self, subject: str, issuer: OidcSettings) -> bool:
        """Whether ``subject`` begins as those of another issuer do, whose prefix says more."""
        others = (keys.issuer.subject_prefix for keys in self._keys.values())
        return any(len(one) > len(issuer.subject_prefix) and subject.startswith(one) for one in others)


def _algorithm(header: Mapping[str, Any], issuer: OidcSettings) -> str:
    algorithm, kind = header.get("alg"), header.get("typ")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise refused("algorithm", "the token's signature algorithm is not accepted")
    # RFC 8725, section 3.11: another kind of token by the same issuer is no access token
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in _TYPES):
        raise refused("type", "the token is of a kind that is not accepted")
    # RFC 7515, section 4.1.11: what is critical and not understood makes the token invalid
    if "crit" in header or "b64" in header:
        raise refused("malformed", "the token asks for an extension that is not understood")
    return algorithm


def _kid(header: Mapping[str, Any]) -> str | None:
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise refused("malformed", "the token is no JWT")
    return kid


class _Accepted(JWSRegistry):
    """Exactly one algorithm, our own limit on size, and headers of any name (issuers have their own)."""

    max_header_length = MAX_LENGTH

    def __init__(self, algorithm: str) -> None:
        super().__init__(algorithms=[algorithm], strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        # not the base's: it warns at each token signed with EdDSA, which many issuers still use
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(name)
        return self.algorithms[name]


def _is_signed(token: str, key: Key, algorithm: str) -> bool:
    try:
        jws.deserialize_compact(token, key, registry=_Accepted(algorithm))
    except (JoseError, ValueError):
        return False
    return True


def check_claims(claims: Mapping[str, Any], issuer: OidcSettings, now: float) -> float:
    """Until when the token holds (Unix seconds, leeway included). Raises ``Unauthorized`` if it does not."""
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(one, str) and one in issuer.audience for one in named):
        raise refused("audience", "the token is meant for somebody else")
    expires = _time(claims, "exp")
    if expires is None:
        raise refused("expiry", "the token has no expiry")
    if now >= expires + issuer.leeway:
        raise refused("expired", "the token has expired")
    for name in ("nbf", "iat"):
        begin = _time(claims, name)
        if begin is not None and begin > now + issuer.leeway:
            raise refused("early", "the token is not valid yet")
    return expires + issuer.leeway


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or abs(value) > 1e15
        or math.isnan(value)
    ):
        raise refused("malformed", f"the token's {name} is no time")
    return float(value)


def read_caller(claims: Mapping[str, Any], issuer: OidcSettings) -> Caller:
    """The caller that verified claims name. Raises ``Unauthorized`` when one that is needed is missing."""
    return Caller(
        issuer.subject_prefix + _required(claims, issuer.subject_claim),
        tenant=_required(claims, issuer.tenant_claim) if issuer.tenant_claim else "",
        scopes=_scopes(claim(claims, issuer.scope_claim)),
        claims=MappingProxyType(dict(claims)),
    )


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim called ``name``; where there is none, ``a.b`` is ``b`` inside the object ``a``."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _required(claims: Mapping[str, Any], name: str) -> str:
    value = claim(claims, name)
    if not isinstance(value, str) or not value:
        raise refused("claims", f"the token has no {name}")
    return value


def _scopes(value: Any) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()

"""The public keys of one issuer: fetched when needed, kept, fetched again when they change."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from enginehost.address import is_safe_url
from enginehost.errors import EngineUnavailable

if TYPE_CHECKING:
    from enginehost.auth_settings import OidcSettings

MAX_AGE = 3600.0
"""Seconds after which keys are fetched again, so that a withdrawn key stops counting."""
MAX_STALE = 24 * 3600.0
"""Seconds that old keys go on counting while their issuer does not answer."""
REFRESH_INTERVAL = 10.0
"""Seconds between two fetches at least, however many unknown key ids arrive."""
RETRY_INTERVAL = 2.0
"""The same, while there is no key yet."""
FETCH_TIMEOUT = 10.0
MAX_BYTES = 1 << 20
_MIN_RSA_DIGITS = 342
"""Length of a 2048-bit modulus in base64url (NIST SP 800-131A: nothing shorter)."""

Fetch = Callable[[str], Awaitable[Any]]
_log = logging.getLogger("enginehost.auth")


class FetchFailed(Exception):
    """A document of an issuer could not be had; the text says why."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One usable key of a JWK set; ``algorithm`` is the only one it may be used with, where it says so."""

    key: Key
    kid: str | None
    kind: str
    curve: str
    algorithm: str | None

    def fits(self, algorithm: str) -> bool:
        """Whether the key may check signatures by ``algorithm`` (RFC 7518, RFC 8037, RFC 9864)."""
        if self.algorithm not in (None, algorithm):
            return False
        if algorithm[:2] in ("RS", "PS"):
            return self.kind == "RSA"
        curves = {"ES256": ("P-256",), "ES384": ("P-384",), "ES512": ("P-521",), "Ed25519": ("Ed25519",)}
        return self.curve in curves.get(algorithm, ("Ed25519", "Ed448"))


def read_keys(document: Any) -> tuple[VerificationKey, ...]:
    """The usable signature keys of a JWK set; others are passed over (RFC 7517, section 5).

    Symmetric keys are never usable: whoever can read the set could sign with them.
    Raises :class:`FetchFailed` when it is no JWK set.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise FetchFailed("its key set is no JWK set")
    keys = (_read_key(cast("dict[str, Any]", one)) for one in listed if isinstance(one, dict))
    return tuple(key for key in keys if key is not None)


def _read_key(data: dict[str, Any]) -> VerificationKey | None:
    kind, operations = data.get("kty"), data.get("key_ops")
    if kind not in ("RSA", "EC", "OKP") or data.get("use", "sig") != "sig":
        return None
    if isinstance(operations, list) and "verify" not in operations:
        return None
    if kind == "RSA" and len(str(data.get("n", ""))) < _MIN_RSA_DIGITS:
        return None
    public = {k: v for k, v in data.items() if k in ("kty", "n", "e", "crv", "x", "y")}
    try:
        key = import_key(public)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return VerificationKey(key, _text(data, "kid"), kind, _text(data, "crv") or "", _text(data, "alg"))


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) else None


async def fetch_json(url: str) -> Any:
    """The JSON document at ``url``. Raises :class:`FetchFailed`; follows no redirect."""
    import httpx2

    try:
        with anyio.fail_after(FETCH_TIMEOUT):
            async with (
                httpx2.AsyncClient(timeout=FETCH_TIMEOUT / 2, follow_redirects=False) as client,
                client.stream("GET", url, headers={"Accept": "application/json"}) as response,
            ):
                if response.status_code != 200:
                    raise FetchFailed(f"it answered with status {response.status_code}")
                data = bytearray()
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_BYTES:
                        raise FetchFailed(f"its answer has more than {MAX_BYTES} bytes")
        return json.loads(data)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise FetchFailed(f"it does not answer ({type(error).__name__})") from error
    except (ValueError, RecursionError) as error:
        raise FetchFailed("its answer is no JSON") from error


class IssuerKeys:
    """The keys of ``issuer``. ``clock`` counts seconds; ``fetch`` gets a JSON document."""

    def __init__(
        self, issuer: OidcSettings, *, clock: Callable[[], float] = time.monotonic, fetch: Fetch = fetch_json
    ) -> None:
        self.issuer = issuer
        self._clock = clock
        self._fetch = fetch
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched = float("-inf")
        self._next_fetch = float("-inf")
        self._fetches = 0
        self._lock = anyio.Lock()  # one fetch at a time; those who waited for it use what it brought

    async def matching(self, kid: str | None, algorithm: str) -> list[Key]:
        """The keys that may have made a signature; none when the issuer has no such key.

        Raises :class:`~enginehost.errors.EngineUnavailable` when that cannot be known now.
        """
        found = self._matching(kid, algorithm)
        if found and self._clock() - self._fetched < MAX_AGE:
            return found
        await self._refresh()
        if self._clock() - self._fetched > MAX_STALE:
            raise EngineUnavailable(
                "the token cannot be checked now: its issuer does not answer", reason="issuer unavailable"
            )
        return self._matching(kid, algorithm)

    def _matching(self, kid: str | None, algorithm: str) -> list[Key]:
        return [one.key for one in self._keys if (kid is None or one.kid == kid) and one.fits(algorithm)]

    async def _refresh(self) -> None:
        seen = self._fetches
        async with self._lock:
            if seen != self._fetches or self._clock() < self._next_fetch:
                return
            try:
                self._keys = read_keys(await self._fetch(await self._address()))
                self._fetched = self._clock()
            except FetchFailed as error:
                _log.warning("keys of issuer %s cannot be fetched: %s", self.issuer.issuer, error)
            self._fetches += 1
            self._next_fetch = self._clock() + (REFRESH_INTERVAL if self._keys else RETRY_INTERVAL)

    async def _address(self) -> str:
        if self.issuer.jwks_uri is not None:
            return self.issuer.jwks_uri
        document = await self._fetch(self.issuer.discovery_url)
        if not isinstance(document, dict) or document.get("issuer") != self.issuer.issuer:
            raise FetchFailed("its discovery document is another issuer's")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or not is_safe_url(address):
            raise FetchFailed("its discovery document names no safe jwks_uri")
        return address

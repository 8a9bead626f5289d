"""Static bearer tokens: known only as SHA-256 digests, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from enginehost.auth_settings import token_digest
from enginehost.caller import Caller
from enginehost.checked_model import joined
from enginehost.errors import ConfigError
from enginehost.regular_file import read_regular

if TYPE_CHECKING:
    from enginehost.auth_settings import TokenSettings

_MAX_FILE = 64 << 10


@dataclass(slots=True, eq=False)
class Proof:
    """Who somebody has proven to be, and until when that holds (Unix seconds)."""

    caller: Caller
    expires: float = float("inf")
    _faces: dict[str, Caller] = field(default_factory=dict)

    def through(self, face: str) -> Caller:
        """The caller, come in through ``face``; the same object each time."""
        known = self._faces.get(face)
        if known is None:
            known = self._faces[face] = replace(self.caller, face=face)
        return known


class TokenTable:
    """The callers whose tokens the settings list. Files and variables are read once, here.

    Raises :class:`~enginehost.errors.ConfigError`, naming the token's owner, for those that cannot be
    had, that are too short, or that two owners share.
    """

    def __init__(self, tokens: Sequence[TokenSettings], environ: Mapping[str, str]) -> None:
        self._proofs: dict[bytes, tuple[bytes, Proof]] = {}
        wrong: list[ConfigError] = []
        for token in tokens:
            try:
                self._add(token, _digest(token, environ))
            except ConfigError as error:
                wrong.append(error)
        if wrong:
            raise joined(wrong)

    def _add(self, token: TokenSettings, digest: bytes) -> None:
        if digest in self._proofs:
            first = self._proofs[digest][1].caller.subject
            hint = f"`{shlex.join(['enginehost', 'token', token.name])}` makes another one"
            raise ConfigError(f"tokens: {first!r} and {token.name!r} have the same token", hint=hint)
        caller = Caller(token.name, tenant=token.tenant, scopes=frozenset(token.scopes))
        self._proofs[digest] = (digest, Proof(caller))

    def find(self, digest: bytes) -> Proof | None:
        """Who shows the token with this SHA-256."""
        found = self._proofs.get(digest)
        return found[1] if found is not None and hmac.compare_digest(found[0], digest) else None


def digest_of(token: str) -> bytes:
    """The SHA-256 by which a shown token is looked up."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _digest(token: TokenSettings, environ: Mapping[str, str]) -> bytes:
    if token.token_sha256 is not None:
        return bytes.fromhex(token.token_sha256)
    try:
        return token_digest(_text(token, environ))
    except ValueError as error:
        raise ConfigError(f"the token of {token.name!r} is not usable: {error}") from None


def _text(token: TokenSettings, environ: Mapping[str, str]) -> str:
    if token.token_env is not None:
        if token.token_env not in environ:
            raise ConfigError(
                f"the token of {token.name!r} is missing: the variable {token.token_env} is not set",
                hint=f"export {token.token_env}=…, where the host starts",
            )
        return environ[token.token_env].strip()
    path = token.token_file
    if path is None:
        raise AssertionError("the settings see to it that one way is given")
    try:
        return read_regular(path, _MAX_FILE).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it holds more than ASCII text"
        raise ConfigError(f"the token of {token.name!r} cannot be read: {reason}", path=str(path)) from None

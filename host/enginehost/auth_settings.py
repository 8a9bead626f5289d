"""The settings that say whose proofs count: static tokens and issuers of JWTs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from enginehost.address import is_safe_url
from enginehost.caller import RESERVED_SUBJECTS
from enginehost.checked_model import Section
from enginehost.policy_rules import Word, Words

MIN_TOKEN_LENGTH = 16
"""Characters a bearer token needs at least: a shorter one can be guessed."""

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Signatures an issuer may use: public-key ones only (RFC 8725, section 3.1)."""


def at_home(path: Path) -> Path:
    """The path with the home folder in place of ``~``."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("there is no home folder to put in place of ~") from None


UserPath = Annotated[Path, AfterValidator(at_home)]


class TokenSettings(Section):
    """A static bearer token and who shows it. One of the four ways to give the token is used."""

    name: Word = Field(description="The caller's subject: what the policy and the log call them.")
    token: SecretStr | None = Field(
        default=None,
        description="The token itself; only its SHA-256 is kept. Better: one of the other three.",
    )
    token_sha256: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", repr=False, description="The token's SHA-256, hexadecimal."
    )
    token_file: UserPath | None = Field(default=None, description="A file that holds the token.")
    token_env: Word | None = Field(default=None, description="The environment variable that holds the token.")
    scopes: Words = Field(default=(), description="What the token grants.")
    tenant: str = Field(default="", description="The customer the caller belongs to.")

    @model_validator(mode="before")
    @classmethod
    def _digested(cls, value: Any) -> Any:
        """Keep the digest in place of the token."""
        if not isinstance(value, Mapping) or value.get("token") is None:
            return value
        if value.get("token_sha256") is not None:
            raise ValueError("give the token one way only: token, token_sha256, token_file or token_env")
        token = value["token"]
        text = token.get_secret_value() if isinstance(token, SecretStr) else token
        if not isinstance(text, str):
            raise ValueError("the token has to be text: put it in quotes")  # noqa: TRY004 - pydantic's protocol
        return {**value, "token": None, "token_sha256": token_digest(text).hex()}

    @field_validator("name")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in RESERVED_SUBJECTS:
            raise ValueError(f"{value!r} is a name that the host itself gives to callers; choose another one")
        return value

    @field_validator("token_sha256", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.token_sha256, self.token_file, self.token_env)) != 1:
            raise ValueError("give the token one way only: token, token_sha256, token_file or token_env")
        return self


def token_digest(token: str) -> bytes:
    """The SHA-256 of a token. Raises :class:`ValueError` for one that cannot be a good bearer token."""
    if len(token) < MIN_TOKEN_LENGTH:
        raise ValueError(
            f"a token needs at least {MIN_TOKEN_LENGTH} characters; `enginehost token NAME` makes a good one"
        )
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise ValueError("a token holds no blanks and only ASCII characters")
    return hashlib.sha256(token.encode("ascii")).digest()


class OidcSettings(Section):
    """An issuer of JWTs (OpenID Connect, OAuth2) that the host trusts."""

    issuer: Word = Field(description="The exact iss of its tokens: an https URL (http on loopback only).")
    audience: Annotated[Words, Field(min_length=1)] = Field(
        description="The aud values that stand for this host; a token has to name one."
    )
    jwks_uri: Word | None = Field(default=None, description="Where its keys are; absent: found by discovery.")
    discovery: Word | None = Field(
        default=None, description="The discovery document; absent: ISSUER/.well-known/openid-configuration."
    )
    algorithms: Annotated[Words, Field(min_length=1)] = Field(
        default=("RS256", "ES256"), description=f"Accepted signatures, of {', '.join(ALGORITHMS)}."
    )
    subject_claim: Word = Field(default="sub", description="The claim that names the caller.")
    subject_prefix: str = Field(
        default="",
        description="Put before each subject. Issuers (and static tokens) may use one name for two people: "
        "give each issuer a prefix of its own where there are several.",
    )
    scope_claim: Word = Field(
        default="scope", description="Scopes: text with blanks, or a list; a.b reaches into an object."
    )
    tenant_claim: Word | None = Field(
        default=None, description="The claim that names the tenant; then required."
    )
    leeway: float = Field(default=30, ge=0, le=600, description="Seconds by which clocks may differ.")

    @field_validator("tenant_claim", mode="before")
    @classmethod
    def _is_named(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be empty: leave the key out where tokens have no tenant")
        return value

    @field_validator("algorithms")
    @classmethod
    def _are_public_key(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in ALGORITHMS:
                raise ValueError(f"{name} is not accepted; there are {', '.join(ALGORITHMS)}")
        return value

    @field_validator("issuer", "jwks_uri", "discovery")
    @classmethod
    def _is_safe(cls, value: str | None) -> str | None:
        if value is not None and not is_safe_url(value):
            raise ValueError("has to be an https URL (http is for loopback)")
        return value

    @property
    def discovery_url(self) -> str:
        """Where the discovery document is (OpenID Connect Discovery 1.0, section 4)."""
        return self.discovery or f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"

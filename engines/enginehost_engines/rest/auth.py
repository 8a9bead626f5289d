"""The headers that prove to the remote service who calls."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import SecretStr

from enginehost.errors import ConfigError
from enginehost_engines.rest.config import AuthKind, RestConfig

_TELLING = re.compile(r"(?i)key|token|secret|pass|pwd|credential|auth|cookie")
_KEY = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[^\s]{16,}")


def auth_kind(config: RestConfig) -> AuthKind:
    """``AUTH``, or what the given credentials imply."""
    if config.auth is not None:
        return config.auth
    if config.api_key_value is not None:
        return "api_key"
    if config.auth_token is not None:
        return "bearer"
    return "basic" if config.auth_username is not None else "none"


def auth_header(config: RestConfig) -> tuple[str, str] | None:
    """Name and value of the header to send; :class:`ConfigError` where a credential is missing."""
    match auth_kind(config):
        case "none":
            return None
        case "api_key":
            return config.api_key_header_name.strip(), _needed(
                config.api_key_value, "API_KEY_VALUE", "api_key"
            )
        case "bearer":
            return "Authorization", f"Bearer {_needed(config.auth_token, 'AUTH_TOKEN', 'bearer')}"
        case "basic":
            return "Authorization", f"Basic {_basic(config)}"


def _basic(config: RestConfig) -> str:
    user = config.auth_username or ""
    if not user:
        raise _missing("AUTH_USERNAME", "basic")
    if ":" in user:
        hint = "the password has a key of its own, AUTH_PASSWORD"
        message = "AUTH_USERNAME may not hold a colon (RFC 7617)"
        raise ConfigError(message, hint=hint, key="AUTH_USERNAME", reason="bad-credentials")
    password = config.auth_password.get_secret_value() if config.auth_password else ""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _needed(secret: SecretStr | None, key: str, kind: str) -> str:
    if secret is None or not secret.get_secret_value():
        raise _missing(key, kind)
    return secret.get_secret_value()


def _missing(key: str, kind: str) -> ConfigError:
    hint = f"add {key} = ${{secret:…}}, or write another AUTH"
    message = f"{key} is missing, which AUTH = {kind} needs"
    return ConfigError(message, hint=hint, key=key, reason="missing-credentials")


def is_telling(name: str, text: str) -> bool:
    """Whether a text is a secret by its name, or by its look: long, letters and digits, without a blank."""
    return _TELLING.search(name) is not None or _KEY.fullmatch(text) is not None


def telling_values(constants: Any, name: str = "") -> Iterator[str]:
    """The texts in a document that are secrets as far as one can tell."""
    if isinstance(constants, Mapping):
        for member, value in cast("Mapping[Any, Any]", constants).items():
            yield from telling_values(value, str(member))
    elif isinstance(constants, list):
        for value in cast("list[Any]", constants):
            yield from telling_values(value, name)
    elif isinstance(constants, str) and is_telling(name, constants):
        yield constants


def credentials(config: RestConfig) -> list[str]:
    """Every secret that the configuration holds, as it stands and as it travels."""
    secrets = [config.api_key_value, config.auth_token, config.auth_password]
    header = auth_header(config)
    return [secret.get_secret_value() for secret in secrets if secret] + ([header[1]] if header else [])

"""The headers that prove to the remote service who calls."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from pydantic import SecretStr

from enginehost.errors import ConfigError
from enginehost_engines.rest.config import AuthKind, RestConfig
from enginehost_engines.rest.url import Origin, parse

if TYPE_CHECKING:
    from enginehost_engines.rest.oauth import TokenSource
    from enginehost_engines.rest.proof import Prover
    from enginehost_engines.rest.transport import PoolSettings

_TELLING = re.compile(r"(?i)key|token|secret|pass|pwd|credential|auth|cookie")
_KEY = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[^\s]{16,}")


GRANTS: Mapping[str, str] = {
    "oauth2_client_credentials": "client_credentials",
    "oauth2_refresh_token": "refresh_token",
    "oauth2_password": "password",
}
"""The kinds of ``AUTH`` that get tokens, with their ``grant_type``."""


def auth_kind(config: RestConfig) -> AuthKind:
    """``AUTH``, or what the given credentials imply."""
    if config.auth is not None:
        return config.auth
    if config.api_key_value is not None:
        return "api_key"
    if config.auth_token is not None:
        return "bearer"
    if config.auth_token_url is not None:
        return _grant_kind(config)
    if config.auth_aws_service is not None:
        return "sigv4"
    if config.auth_username is not None:
        return "basic"
    return "none" if config.auth_client_cert is None else "mtls"


def _grant_kind(config: RestConfig) -> AuthKind:
    if config.auth_refresh_token is not None:
        return "oauth2_refresh_token"
    return "oauth2_client_credentials" if config.auth_username is None else "oauth2_password"


def auth_header(config: RestConfig) -> tuple[str, str] | None:
    """Name and value of the header to send; ``None`` where no fixed header proves who calls.

    :class:`ConfigError` where a credential is missing.
    """
    match auth_kind(config):
        case "api_key":
            return config.api_key_header_name.strip(), _needed(
                config.api_key_value, "API_KEY_VALUE", "api_key"
            )
        case "bearer":
            return "Authorization", f"Bearer {_needed(config.auth_token, 'AUTH_TOKEN', 'bearer')}"
        case "basic":
            return "Authorization", f"Basic {_basic(config)}"
        case _:
            return None


def check_credentials(config: RestConfig) -> None:
    """Raise :class:`ConfigError` where ``AUTH`` needs a key that is not there, or one that cannot be."""
    kind = auth_kind(config)
    auth_header(config)
    needed: list[tuple[object, str]] = []
    if kind in GRANTS:
        needed = [(config.auth_token_url, "AUTH_TOKEN_URL"), (config.auth_client_id, "AUTH_CLIENT_ID")]
    if kind == "oauth2_client_credentials":
        needed.append((config.auth_client_secret, "AUTH_CLIENT_SECRET"))
    elif kind == "oauth2_refresh_token":
        needed.append((config.auth_refresh_token, "AUTH_REFRESH_TOKEN"))
    elif kind == "oauth2_password":
        needed += [(config.auth_username, "AUTH_USERNAME"), (config.auth_password, "AUTH_PASSWORD")]
    elif kind == "sigv4":
        needed = [(config.auth_aws_region, "AUTH_AWS_REGION"), (config.auth_aws_service, "AUTH_AWS_SERVICE")]
        if config.auth_aws_access_key_id is not None:
            needed.append((config.auth_aws_secret_access_key, "AUTH_AWS_SECRET_ACCESS_KEY"))
    elif kind == "mtls":
        needed = [(config.auth_client_cert, "AUTH_CLIENT_CERT")]
    for value, key in needed:
        if value is None:
            raise _missing(key, kind)
    if kind in GRANTS or kind == "sigv4":
        _check_free(config, kind)
    if config.redirect_hosts and config.auth_client_cert is not None:
        message = "REDIRECT_HOSTS and AUTH_CLIENT_CERT exclude each other: it goes to no other host"
        raise ConfigError(message, hint="drop one", key="REDIRECT_HOSTS", reason="bad-credentials")


def _check_free(config: RestConfig, kind: str) -> None:
    """Nothing else may set the header that the proof needs."""
    rule = f"AUTH = {kind} sets the header Authorization itself"
    if any(name.lower() == "authorization" for name in config.headers):
        raise ConfigError(f"HEADERS: {rule}", hint="leave it out", key="HEADERS", reason="bad-header")
    if any(place.strip().lower() == "header:authorization" for place in config.parameter_placement.values()):
        hint = "place the parameter elsewhere"
        key = "PARAMETER_PLACEMENT"
        raise ConfigError(f"{key}: {rule}", hint=hint, key=key, reason="bad-placement")


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
    given = (getattr(config, name) for name in _secret_fields() & config.model_fields_set)
    secrets = [secret.get_secret_value() for secret in given if secret is not None]
    header = auth_header(config)
    if header:
        secrets.append(header[1])
    if config.proxy_url is not None:
        secrets.append(urlsplit(config.proxy_url.get_secret_value()).password or "")
    return secrets


@lru_cache(1)
def _secret_fields() -> frozenset[str]:
    """The fields of the model that are secrets; of the proxy only the password is one."""
    fields = RestConfig.model_fields.items()
    return frozenset(name for name, field in fields if "SecretStr" in str(field.annotation)) - {"proxy_url"}


def make_prover(config: RestConfig, settings: Callable[[Origin], PoolSettings]) -> Prover | None:
    """What gives the proofs of an engine whose header is not a fixed one.

    ``settings`` are those of connections to the origin of tokens.
    """
    kind = auth_kind(config)
    if kind == "sigv4":
        from enginehost_engines.rest.sigv4 import AwsProver

        return AwsProver(config)
    if kind == "caller":
        from enginehost_engines.rest.proof import CallersOwn

        return CallersOwn()
    return _token_source(config, GRANTS[kind], settings) if kind in GRANTS else None


def _token_source(config: RestConfig, grant: str, settings: Callable[[Origin], PoolSettings]) -> TokenSource:
    from enginehost_engines.rest.grants import Grant
    from enginehost_engines.rest.oauth import TokenSource

    url = config.auth_token_url or ""
    return TokenSource.of(
        Grant(
            kind=grant,
            url=url,
            settings=settings(parse(url).origin),
            client_id=config.auth_client_id or "",
            client_secret=_plain(config.auth_client_secret),
            client_method=config.auth_client_method,
            scope=config.auth_scope or "",
            audience=config.auth_audience or "",
            username=config.auth_username or "" if grant == "password" else "",
            password=_plain(config.auth_password) if grant == "password" else "",
            refresh_token=_plain(config.auth_refresh_token) if grant == "refresh_token" else "",
            seconds=config.auth_timeout_seconds,
        )
    )


def _plain(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()

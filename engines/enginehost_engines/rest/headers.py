"""Which headers a file may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.errors import ConfigError
from enginehost_engines.rest.placement import FORBIDDEN_HEADERS
from enginehost_engines.rest.wire import TOKEN, header_value, text


def check_header(name: str, value: Any, key: str) -> None:
    """Raise :class:`ConfigError` where ``key`` sets what is no header, or not a file's to set."""
    if not TOKEN.fullmatch(name):
        raise _wrong(key, f"{name!r} is no header name", "letters, digits and - make one: X-Client")
    if name.lower() in FORBIDDEN_HEADERS - {"host"}:
        raise _wrong(key, f"{name} is set by the connection, not by a file", "leave it out")
    if value is None or isinstance(value, Mapping | list):
        raise _wrong(key, f"the value of {name} must be text", f'write {{"{name}": "text"}}')
    try:
        header_value(text(value))
    except ValueError:
        message = f"the value of {name} has a line break, another control character or a blank at an end"
        raise _wrong(key, message, "write it on one line") from None


def check_headers(headers: Mapping[str, Any]) -> None:
    """Raise :class:`ConfigError` for the first of ``HEADERS`` that :func:`check_header` refuses."""
    for name, value in headers.items():
        check_header(name, value, "HEADERS")


def _wrong(key: str, problem: str, hint: str) -> ConfigError:
    return ConfigError(f"{key}: {problem}", hint=hint, reason="bad-header")

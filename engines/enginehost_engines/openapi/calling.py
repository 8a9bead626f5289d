"""The REST engine's configuration of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginehost_engines.openapi.rest_keys import read_rest
from enginehost_engines.rest.config import RestConfig

if TYPE_CHECKING:
    from enginehost_engines.openapi.operations import Operation

_STAND_IN = "secret"


def rest_config(operation: Operation, common: Mapping[str, Any], *, stand_in: bool = False) -> RestConfig:
    """The configuration of the REST engine. Raises :class:`ConfigError` for what it refuses.

    ``common`` are keys for all operations: limits, credentials. ``stand_in``: credentials are not known, and
    only whether the rest fits is of interest.
    """
    keys: dict[str, Any] = {**common, **operation.rest}
    keys["API_ENDPOINT_URL"] = operation.server.url + operation.url
    if headers := {**common.get("HEADERS", {}), **operation.rest.get("HEADERS", {})}:
        keys["HEADERS"] = headers
    if operation.streams or keys.get("HTTP_METHOD", "GET") not in ("GET", "HEAD"):
        keys.pop("CACHE_SECONDS", None)  # it holds for what can be kept
    if stand_in:
        keys |= {key: value or _STAND_IN for key, value in operation.security.keys.items()}
    return read_rest(keys)

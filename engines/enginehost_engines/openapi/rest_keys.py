"""The REST engine's configuration, made of keys as a smss file has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from enginehost.config import config_keys
from enginehost.errors import ConfigError
from enginehost_engines.rest.config import RestConfig


@lru_cache(1)
def _input_names() -> Mapping[str, str]:
    return {name: key.input_name for key in config_keys(RestConfig) for name in key.accepted}


def read_rest(keys: Mapping[str, Any]) -> RestConfig:
    """The configuration of the REST engine. Raises :class:`ConfigError` for what it refuses."""
    names = _input_names()
    try:
        return RestConfig.model_validate({names[key]: value for key, value in keys.items()})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raised = first.get("ctx", {}).get("error")
        if isinstance(raised, ConfigError):
            raise ConfigError(
                raised.message, hint=raised.hint, reason=raised.reason, key=raised.key
            ) from None
        raise ConfigError(str(first["msg"]), reason="bad-operation") from None

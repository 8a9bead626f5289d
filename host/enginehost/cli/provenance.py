"""Which settings were given, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from enginehost.cli.findings import Finding, doubtful, fine
from enginehost.settings import HostSettings
from enginehost.settings_layers import PREFIX, environment_layer, file_layer, locate, unknown_variables
from enginehost.yaml_document import Place

AREA = "settings"
OWN_VARIABLES = (f"{PREFIX}TOKEN",)
"""Variables that the command line reads itself."""


def given_settings(settings: HostSettings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every setting that is not the default, with its source; and variables that set nothing."""
    file = settings.config_file
    yield fine(AREA, f"read from {file}" if file else "no enginehost.yaml: defaults and variables")
    layers = [*([file_layer(HostSettings, file)] if file else []), environment_layer(HostSettings, environ)]
    defaults = HostSettings()
    for loc in _leaves(settings):
        place = locate(layers, loc)
        if place is not None and _value(settings, loc) != _value(defaults, loc):
            yield fine(AREA, f"{'.'.join(loc)} = {_shown(_value(settings, loc))}", _where(place))
    for found in unknown_variables(HostSettings, environ, OWN_VARIABLES):
        yield doubtful(AREA, found.message, found.hint)


def _leaves(model: BaseModel, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name)


def _value(settings: HostSettings, loc: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in loc:
        value = getattr(value, name, None)  # the policy's section may be absent
    return value


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        return f"{len(value)} given"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _where(place: Place) -> str:
    return f"{place.path}:{place.line}" if place.line else place.path

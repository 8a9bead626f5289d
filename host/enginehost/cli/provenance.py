"""Which settings were given, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel, SecretStr

from enginehost.cli.findings import Finding, doubtful, fine
from enginehost.redaction import without_url_passwords
from enginehost.settings import HostSettings
from enginehost.settings_layers import PREFIX, environment_layer, file_layer, locate, unknown_variables
from enginehost.yaml_document import Place

AREA = "settings"
OWN_VARIABLES = (f"{PREFIX}TOKEN",)
"""Variables that the command line reads itself."""


def given_settings(settings: HostSettings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every setting that is given, with its source; and variables that set nothing."""
    file = settings.config_file
    yield fine(AREA, f"read from {file}" if file else "no enginehost.yaml: defaults and variables")
    in_file = [file_layer(HostSettings, file)] if file else []
    layers = [*in_file, environment_layer(HostSettings, environ, lambda _: None)]
    for loc, value in _leaves(settings):
        if place := locate(layers, loc):
            yield fine(AREA, f"{'.'.join(loc)} = {_shown(value)}", _where(place))
    for found in unknown_variables(HostSettings, environ, OWN_VARIABLES):
        yield doubtful(AREA, found.message, found.hint)


def _leaves(model: BaseModel, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each setting that somebody set, with its value."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*above, name))
        elif name in model.model_fields_set:
            yield (*above, name), value


def _shown(value: Any) -> str:
    """The value as one writes it into ``enginehost.yaml``."""
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        if items and isinstance(items[0], BaseModel):
            return f"{len(items)} given"
        return without_url_passwords(", ".join(map(str, items))) or "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value).removesuffix(".0") if isinstance(value, float) else without_url_passwords(str(value))


def _where(place: Place) -> str:
    return f"{place.path}:{place.line}" if place.line else place.path

"""The places settings come from, each as nested plain values that remember where they were given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from enginehost.checked_model import Section, expanded, flat_types, nearest_hint, submodel
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import ConfigError
from enginehost.yaml_document import Loc, Place, read_document

FILE_NAME = "enginehost.yaml"
PREFIX = "ENGINEHOST_"
SHORT_NAMES: Mapping[str, Loc] = {"domain": ("databus", "domain")}
"""Settings that also have a short name in the environment and among a program's own."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one source."""

    values: dict[str, Any]
    places: dict[Loc, Place]


def find_file(folder: str | Path | None) -> Path | None:
    """The ``enginehost.yaml`` beside ``folder``, else the one in the current directory."""
    places = [Path(folder).absolute().parent] if folder is not None else []
    return next((file for place in (*places, Path.cwd()) if (file := place / FILE_NAME).is_file()), None)


def file_layer(model: type[BaseModel], path: Path) -> Layer:
    """The settings in ``path``, its relative paths made absolute."""
    document = read_document(path)
    if document.value is None:
        return Layer({}, {})
    if not isinstance(document.value, dict):
        raise ConfigError("settings are keys with values", path=str(path), line=1, hint="such as http: off")
    values = _expanded(model, document.value)
    return Layer(_anchored(model, values, path.absolute().parent), document.places)


def environment_layer(
    model: type[BaseModel], environ: Mapping[str, str], report: Callable[[ConfigError], None]
) -> Layer:
    """The settings in variables named ``ENGINEHOST_SECTION__KEY``; blank ones count as not set.

    A first part that is no setting is somebody else's variable (:func:`unknown_variables` tells); a
    second part that is none is an error, which goes to ``report``.
    """
    layer = Layer({}, {})
    for name in sorted(environ):
        value = environ[name].strip()
        if not name.startswith(PREFIX) or not value:
            continue
        loc = _loc(name.removeprefix(PREFIX).lower())
        if loc[0] in model.model_fields:
            try:
                _put(model, layer, loc, value, Place(name))
            except ConfigError as error:
                report(error)
    return layer


def override_layer(model: type[BaseModel], overrides: Mapping[str, Any]) -> Layer:
    """The settings a program gives by keyword."""
    layer = Layer({}, {})
    for name, value in overrides.items():
        if value is not None:
            _put(model, layer, _loc(name), value, Place(""))
    return layer


def unknown_variables(
    model: type[BaseModel], environ: Mapping[str, str], known: Iterable[str] = ()
) -> list[Diagnostic]:
    """Warnings for ``ENGINEHOST_*`` variables that set nothing; ``known`` are prefixes of others' names."""
    prefixes = (f"{PREFIX}CONFIG", f"{PREFIX}FOLDER", f"{PREFIX}SECRET_", *known)
    return [
        Diagnostic(
            name, 0, 0, Severity.WARNING, "unknown-variable", f"{name} sets nothing",
            nearest_hint(_loc(name.removeprefix(PREFIX))[0], model.model_fields),
        )
        for name in sorted(environ)
        if name.startswith(PREFIX)
        and not name.startswith(prefixes)
        and _loc(name.removeprefix(PREFIX).lower())[0] not in model.model_fields
    ]  # fmt: skip


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """The values of all layers, the later over the earlier, sections key by key."""
    result: dict[str, Any] = {}
    for layer in layers:
        result = _merge(result, layer.values)
    return result


def locate(layers: Sequence[Layer], loc: Loc) -> Place | None:
    """Where the value at ``loc`` was given: the last layer that says most of the way to it."""
    for length in range(len(loc), 0, -1):
        for layer in reversed(layers):
            if place := layer.places.get(loc[:length]):
                return place
    return None


def _loc(name: str) -> tuple[str, ...]:
    first, *rest = name.split("__")
    return (*map(str, SHORT_NAMES.get(first, (first,))), *rest)


def _merge(low: dict[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(low)
    for key, value in high.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), dict)
        result[key] = _merge(result[key], value) if both else value
    return result


def _put(model: type[BaseModel], layer: Layer, loc: tuple[str, ...], value: Any, place: Place) -> None:
    for depth in range(len(loc)):
        owner = submodel(model, loc[:depth])
        if owner is None or loc[depth] not in owner.model_fields:
            hint = nearest_hint(loc[depth], owner.model_fields) if owner else ""
            raise place.error(f"unknown setting {'.'.join(loc)!r}", hint)
    nested: Any = value
    for key in reversed(loc):
        nested = {key: nested}
    layer.values.update(_merge(layer.values, _expanded(model, nested)))
    layer.places[loc] = place


def _expanded(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections written as one plain value become mappings, so that layers merge key by key."""
    result = dict(values)
    for key, value in values.items():
        section = submodel(model, (key,)) if key in model.model_fields else None
        if section and value is None and model.model_fields[key].default is None:
            result[key] = {}  # a section whose keys were all taken out was not left out
        elif section and issubclass(section, Section) and not isinstance(value, (Mapping, list, tuple)):
            given = expanded(section, value)
            result[key] = given.model_dump(exclude_unset=True) if isinstance(given, BaseModel) else given
    return result


def _anchored(model: type[BaseModel] | None, value: Any, base: Path) -> Any:
    if isinstance(value, list):
        return [_anchored(model, item, base) for item in value]
    if not isinstance(value, dict) or model is None:
        return value
    return {key: _anchored_field(model, key, item, base) for key, item in value.items()}


def _anchored_field(model: type[BaseModel], key: str, value: Any, base: Path) -> Any:
    field = model.model_fields.get(key)
    if field is None:
        return value
    if isinstance(value, str) and Path in flat_types(field.annotation):
        return value if value.startswith("~") else str(base / value)
    return _anchored(submodel(model, (key,)), value, base)

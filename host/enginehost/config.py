"""An engine's own keys, read from a declaration into its pydantic model.

Field ``api_key`` reads the key ``API_KEY``. A field with ``validation_alias`` reads the keys that it
names instead (``AliasChoices("API_ENDPOINT_URL", "URL")``: the first is ours). Fields that hold lists,
dicts or models are JSON-valued keys, those of type :class:`Code` hold Python, all others are text. A
blank value counts as absent, unless the field says ``json_schema_extra={"blank": "keep"}``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from enginehost.config_faults import BadValue as BadValue  # noqa: PLC0414 - engines take it from here
from enginehost.config_faults import report
from enginehost.config_keys import ConfigKey as ConfigKey  # noqa: PLC0414 - as above
from enginehost.config_keys import config_keys as config_keys  # noqa: PLC0414 - as above
from enginehost.config_keys import spellings
from enginehost.diagnostics import Severity
from enginehost.errors import ConfigError
from enginehost.interpret import Declaration, declare
from enginehost.keys import COMMON_KEYS, NO_EFFECT, NO_EFFECT_PREFIXES, SEMOSS_KEYS, SEMOSS_PREFIXES
from enginehost.substitute import Code as Code  # noqa: PLC0414 - as above

_Model = TypeVar("_Model", bound=BaseModel)
_LONGEST_COMPARED = 100


class EngineConfig(BaseModel):
    """Base of engines' config models: frozen, and blind to keys that others read."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


def lower_case(value: Any) -> Any:
    """A word as the model has it, in whatever case the file does. (For ``BeforeValidator``.)"""
    return value.strip().lower() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Reading(Generic[_Model]):
    """What could be read of an engine's keys.

    ``unread``: the keys that could not, as the file spells them. Then ``config`` is what it would be
    without them; ``None`` where there is none.
    """

    config: _Model | None
    unread: frozenset[str] = frozenset()


def read_config(declaration: Declaration, model: type[_Model]) -> _Model | None:
    """The config; ``None`` after errors, which stand in the declaration's diagnostics at the key's place.

    No message holds the value of a secret field, or of a key that takes its text from outside the file.
    """
    reading = read_keys(declaration, model)
    return None if reading.unread else reading.config


def read_keys(declaration: Declaration, model: type[_Model]) -> Reading[_Model]:
    """As much as can be read of what :func:`read_config` gives: errors in one key hide none in another."""
    values: dict[str, Any] = {}
    used: dict[str, str] = {}
    unread: set[str] = set()
    known = spellings(model)
    found = [known[name] for name in known.keys() & declaration.keys()]
    for key in {key.field: key for key in found}.values():
        name = _present(declaration, key)
        if name is None:
            continue
        used[key.field] = name
        text = declaration.text(name) or ""
        if not text.strip() and not key.keeps_blank:
            continue
        value = _read_value(declaration, key, name, text)
        if declaration.is_unresolved(name) or (value is None and declaration.has_errors):
            unread.add(key.field)
        else:
            values[key.input_name] = value
    try:
        config = model.model_validate(values)
        if not unread:
            return Reading(config)
    except ValidationError as error:
        unread |= report(declaration, model, error, used, unread)
        config = _without(model, values, unread)
    return Reading(config, frozenset(used.get(field, field.upper()) for field in unread))


def _without(model: type[_Model], values: Mapping[str, Any], unread: set[str]) -> _Model | None:
    """The config of a file that has none of the keys of the fields ``unread``."""
    names = {key.input_name for key in config_keys(model) if key.field in unread}
    try:
        return model.model_validate({name: value for name, value in values.items() if name not in names})
    except ValidationError:
        return None


def config_of(properties: Mapping[str, str], model: type[_Model], path: Path | None = None) -> _Model:
    """The config that the host would make of a file with these keys: for engines that are made elsewhere.

    ``properties`` are those of an :class:`~enginehost.engine.EngineContext`. Raises :class:`ConfigError`
    with the first error.
    """
    declaration = declare(properties, path or Path("engine.smss"))
    config = read_config(declaration, model)
    if config is None:
        found = next(found for found in declaration.diagnostics if found.severity is Severity.ERROR)
        raise ConfigError(found.message, hint=found.hint, reason=found.code)
    return config


def _present(declaration: Declaration, key: ConfigKey) -> str | None:
    present = [name for name in key.accepted if name in declaration]
    if len(present) > 1:
        # a blank one, as forms write it, gives way to one that says something
        present.sort(key=lambda name: not (declaration.text(name) or "").strip())
        for other in present[1:]:
            if (declaration.text(other) or "").strip():
                message = f"{other} has no effect beside {present[0]}"
                declaration.warning(other, "shadowed-key", message, "delete one of the two")
    return present[0] if present else None


def _read_value(declaration: Declaration, key: ConfigKey, name: str, text: str) -> Any:
    if key.form == "json" or (key.form == "either" and text.lstrip()[:1] in ("{", "[")):
        return declaration.json(name)
    if key.form == "code":
        return declaration.code(name)
    return text if key.secret else text.strip()


def check_keys(declaration: Declaration, model: type[BaseModel] | None = None) -> None:
    """Warn of keys that nobody reads, with the nearest key that this engine does.

    Read are the common keys, the model's, and those that another value takes in (``${KEY}``). SEMOSS's
    others pass without a word, and keys that do nothing here are told as ``no-effect``.
    """
    known = _known_keys(model)
    unknown = [key for key in declaration.keys() if key not in known]  # noqa: SIM118 (not a mapping)
    if not unknown:
        return
    referenced = declaration.referenced()
    for key in unknown:
        if declaration.has_enough_findings:
            return
        if key not in referenced and not key.startswith(SEMOSS_PREFIXES):
            _tell_unread(declaration, key, model)


def _tell_unread(declaration: Declaration, key: str, model: type[BaseModel] | None) -> None:
    nearest = None if key in NO_EFFECT else _nearest_key(key[:_LONGEST_COMPARED], model)
    instead = None if nearest else _instead_of(key)
    if instead is None:
        hint = f"did you mean {nearest}?" if nearest else "no engine of this kind reads it"
        declaration.warning(key, "unknown-key", f"the key {key} has no effect", hint)
    elif (declaration.text(key) or "").strip():  # SEMOSS's form writes blank what was not filled in
        declaration.warning(key, "no-effect", f"{key} has no effect in this version", instead)


def _instead_of(key: str) -> str | None:
    """What happens instead of what ``key`` promises; ``None`` where it promises nothing."""
    starts = (text for start, text in NO_EFFECT_PREFIXES.items() if key.startswith(start))
    return NO_EFFECT.get(key) or next(starts, None)


@lru_cache(maxsize=256)
def _known_keys(model: type[BaseModel] | None) -> frozenset[str]:
    own = [name for key in config_keys(model) for name in key.accepted] if model else []
    return SEMOSS_KEYS.union(COMMON_KEYS, own)


@lru_cache(maxsize=1024)
def _nearest_key(key: str, model: type[BaseModel] | None) -> str | None:
    own = [name for config_key in config_keys(model) for name in config_key.accepted] if model else []
    nearest = difflib.get_close_matches(key, [*own, *COMMON_KEYS], n=1, cutoff=0.7)
    return nearest[0] if nearest else None

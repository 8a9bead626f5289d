"""An engine's own keys, read from a declaration into its pydantic model.

Field ``api_key`` reads the key ``API_KEY``. A field with ``validation_alias`` reads the keys that it
names instead (``AliasChoices("API_ENDPOINT_URL", "URL")``: the first is ours). Fields that hold lists,
dicts or models are JSON-valued keys, those of type :class:`Code` hold Python, all others are text. A
blank value counts as absent, unless the field says ``json_schema_extra={"blank": "keep"}``.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, is_typeddict

from pydantic import AliasChoices, BaseModel, ConfigDict, Secret, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from enginehost.interpret import Declaration
from enginehost.keys import COMMON_KEYS, NO_EFFECT, NO_EFFECT_PREFIXES, SEMOSS_KEYS, SEMOSS_PREFIXES
from enginehost.substitute import Code as Code  # noqa: PLC0414 - engines take it from here
from enginehost.value_faults import fault_text

Form = Literal["text", "json", "either", "code"]
"""How a key's value is read; ``either``: as JSON where it begins like a list or an object."""

_Model = TypeVar("_Model", bound=BaseModel)
_MASK = "***"
_SHORTEST_MASKED = 4
_LONGEST_COMPARED = 100


class EngineConfig(BaseModel):
    """Base of engines' config models: frozen, and blind to keys that others read."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of an engine. ``accepted`` holds all its spellings, ``name`` is the first."""

    name: str
    accepted: tuple[str, ...]
    field: str
    form: Form
    required: bool
    secret: bool
    keeps_blank: bool
    description: str
    input_name: str
    info: FieldInfo

    @property
    def default(self) -> Any:
        """What people are shown as the default; ``None`` where there is none, or it is secret.

        Made anew where the field has a factory; one that needs the other fields gives ``None``.
        """
        if self.required or self.secret or self.info.default_factory_takes_validated_data:
            return None
        return self.info.get_default(call_default_factory=True)


@lru_cache(maxsize=256)
def config_keys(model: type[BaseModel]) -> tuple[ConfigKey, ...]:
    """The keys that ``model`` reads, in the order of its fields."""
    return tuple(_config_key(name, info) for name, info in model.model_fields.items())


@lru_cache(maxsize=256)
def _spellings(model: type[BaseModel]) -> dict[str, ConfigKey]:
    """The model's keys by every name that a file may use."""
    return {name: key for key in config_keys(model) for name in key.accepted}


def _config_key(name: str, info: FieldInfo) -> ConfigKey:
    alias = info.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    spelled = [choice for choice in choices if isinstance(choice, str)]
    accepted = tuple(dict.fromkeys(choice.upper() for choice in spelled or [name]))
    forms = set(_forms(info.annotation))
    secret = _is_secret(info.annotation)
    extra = info.json_schema_extra
    return ConfigKey(
        name=accepted[0],
        accepted=accepted,
        field=name,
        form="either" if len(forms) > 1 else forms.pop(),
        required=info.is_required(),
        secret=secret,
        keeps_blank=isinstance(extra, dict) and extra.get("blank") == "keep",
        description=info.description or "",
        input_name=spelled[0] if spelled else name,
        info=info,
    )


def _forms(annotation: Any) -> Iterable[Form]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _forms(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for option in get_args(annotation):
            if option is not types.NoneType:
                yield from _forms(option)
    elif hasattr(annotation, "__value__"):  # a type alias of Python 3.12
        yield from _forms(annotation.__value__)
    else:
        yield "code" if annotation is Code else "json" if _is_json(origin or annotation) else "text"


def _is_json(kind: Any) -> bool:
    if not isinstance(kind, type):
        return is_typeddict(kind)
    containers = (dict, list, tuple, set, frozenset, BaseModel)
    return (
        issubclass(kind, containers)
        or is_typeddict(kind)
        or hasattr(kind, "__dataclass_fields__")
        or kind.__module__ == "collections.abc"
    )


def _is_secret(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, (SecretStr, SecretBytes, Secret)):
        return True
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Secret):
        return True
    return any(_is_secret(argument) for argument in get_args(annotation))


def read_config(declaration: Declaration, model: type[_Model]) -> _Model | None:
    """The config; ``None`` after errors, which stand in the declaration's diagnostics at the key's place.

    No message holds the value of a secret field, or of a key that takes its text from outside the file.
    """
    values: dict[str, Any] = {}
    used: dict[str, str] = {}
    unreadable = False
    spellings = _spellings(model)
    found = [spellings[name] for name in spellings.keys() & declaration.keys()]
    for key in {key.field: key for key in found}.values():
        name = _present(declaration, key)
        if name is None:
            continue
        used[key.field] = name
        text = declaration.text(name) or ""
        if not text.strip() and not key.keeps_blank:
            continue
        value = _read_value(declaration, key, name, text)
        unreadable |= value is None
        values[key.input_name] = value
    if unreadable and declaration.has_errors:
        return None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        _report(declaration, model, error, used)
        return None


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


def _report(
    declaration: Declaration, model: type[BaseModel], error: ValidationError, used: Mapping[str, str]
) -> None:
    keys = {spelling: key for key in config_keys(model) for spelling in (key.field, key.input_name)}
    confidential = _confidential_texts(declaration, model, used)
    for fault in error.errors(include_url=False, include_input=False):
        if fault["type"] == "default_factory_not_called":
            continue
        where = fault["loc"]
        key = keys.get(str(where[0])) if where else None
        if key is None:
            message = _masked(fault_text(fault), confidential)
            declaration.error("", "bad-config", message)
        elif fault["type"] == "missing" and len(where) == 1:
            _report_missing(declaration, key, used.get(key.field))
        else:
            name = used.get(key.field, key.name)
            inner = "".join(f"/{part}" for part in where[1:])
            at = f" at {inner}" if inner and key.form != "text" and not key.secret else ""
            reason = "not a value that it may have" if key.secret else fault_text(fault)
            colon = ":" if key.secret or fault["type"] == "value_error" else ""
            message = _masked(f"{name}{at}{colon} {reason}", confidential)
            declaration.error(name, "bad-value", message, key.description)


def _report_missing(declaration: Declaration, key: ConfigKey, present: str | None) -> None:
    others = f" (or {', '.join(key.accepted[1:])})" if len(key.accepted) > 1 else ""
    hint = f"add {key.name}: {key.description}" if key.description else f"add {key.name}"
    if present is None:
        declaration.error(key.name, "missing-key", f"the key {key.name}{others} is missing", hint)
    else:
        declaration.error(present, "blank-key", f"the key {present} is blank", key.description)


def _confidential_texts(
    declaration: Declaration, model: type[BaseModel], used: Mapping[str, str]
) -> list[str]:
    secret = {key.field for key in config_keys(model) if key.secret}
    names = [name for field, name in used.items() if field in secret or declaration.is_confidential(name)]
    texts = {(declaration.text(name) or "").strip() for name in names}
    return sorted((text for text in texts if len(text) >= _SHORTEST_MASKED), key=len, reverse=True)


def _masked(message: str, confidential: list[str]) -> str:
    for text in confidential:
        message = message.replace(text, _MASK)
    return message


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

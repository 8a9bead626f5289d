"""The smss keys that a config model reads, and how a file spells them."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

from pydantic import AliasChoices, BaseModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from enginehost.interpret import Declaration
from enginehost.substitute import Code

Form = Literal["text", "json", "either", "code"]
"""How a key's value is read; ``either``: as JSON where it begins like a list or an object."""


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
def spellings(model: type[BaseModel]) -> dict[str, ConfigKey]:
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


def spelling(declaration: Declaration, model: type[BaseModel] | None, name: str) -> str:
    """The key ``name`` as the file spells it; ``name`` itself where the file has none of its spellings."""
    if name in declaration:
        return name
    accepted = _aliases(model).get(name, ())
    return next((other for other in accepted if other in declaration), name)


def as_written(declaration: Declaration, model: type[BaseModel] | None, text: str) -> str:
    """A message with its keys as the file spells them: engines know the first spelling only."""
    for name in _aliases(model):
        if name in text and (written := spelling(declaration, model, name)) != name:
            text = re.sub(rf"\b{re.escape(name)}\b", written, text)
    return text


@lru_cache(maxsize=256)
def _aliases(model: type[BaseModel] | None) -> dict[str, tuple[str, ...]]:
    """The further spellings of keys that have some, by the first."""
    own = {key.name: key.accepted[1:] for key in config_keys(model) if key.accepted[1:]} if model else {}
    return {"ENGINE_CLASS": ("ENGINE_TYPE",), **own}

"""Turns plain values into a pydantic model, and what pydantic finds wrong into a :class:`ConfigError`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from enginehost.errors import ConfigError
from enginehost.yaml_document import Loc, Place

OFF_WORDS = frozenset({"off", "false", "no", "none"})
ON_WORDS = frozenset({"on", "true", "yes"})


class Section(BaseModel):
    """A group of settings: frozen, unknown keys refused, errors that never print what was given.

    ``shorthand`` names the field that a plain value in place of the whole section sets
    (``http: 127.0.0.1:80``); where the section has ``enabled``, a plain ``on`` or ``off`` sets that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    shorthand: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def expand(cls, value: Any) -> Any:
        """The section as a mapping, whichever way it was written."""
        return expanded(cls, value)


def expanded(section: type[Section], value: Any) -> Any:
    """A plain ``value`` in place of the section, as the mapping it stands for."""
    if isinstance(value, (Mapping, BaseModel)) or value is None or not section.shorthand:
        return value
    word = str(value).strip().lower()
    if "enabled" in section.model_fields and word in OFF_WORDS | ON_WORDS:
        return {"enabled": word in ON_WORDS}
    return {section.shorthand: None if word in OFF_WORDS else value}


Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], value: Any, locate: Callable[[Loc], Place]) -> Model:
    """``value`` as a ``model``. Raises :class:`ConfigError` at the place of the first mistake."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        # a misspelt key often makes another one missing: the misspelling is the cause
        found.sort(key=lambda one: one["type"] != "extra_forbidden")
        raise _error(model, found, locate) from None


def nearest_hint(name: str, names: Any) -> str:
    """``did you mean …?`` with the name that looks like ``name``, or the names there are."""
    close = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"


def submodel(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The model that describes the mapping at ``loc`` inside a ``model``."""
    for part in loc:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        inner = next((t for t in flat_types(field.annotation) if _is_model(t)), None) if field else None
        if inner is None:
            return None
        model = inner
    return model


def flat_types(annotation: Any) -> list[Any]:
    """The plain types that an annotation is made of."""
    inner = get_args(annotation)
    return [t for part in inner for t in flat_types(part)] if inner else [annotation]


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _error(model: type[BaseModel], found: list[Any], locate: Callable[[Loc], Place]) -> ConfigError:
    first = found[0]
    loc: Loc = tuple(first["loc"])
    message, hint = _explain(model, first["type"], loc, str(first["msg"]))
    if len(found) > 1:
        message += f" (and {len(found) - 1} more)"
    return locate(loc).error(message, hint)


def _explain(model: type[BaseModel], kind: str, loc: Loc, text: str) -> tuple[str, str]:
    where = ".".join(str(part) for part in loc)
    if kind == "extra_forbidden":
        owner = submodel(model, loc[:-1])
        return f"unknown key {where!r}", nearest_hint(str(loc[-1]), owner.model_fields if owner else ())
    if kind == "missing":
        return f"{where} is missing", ""
    if kind == "string_type":
        return f"{where} has to be text", "put it in quotes"
    text = text.removeprefix("Value error, ").replace("Input should be", "should be")
    return f"{where}: {text}" if where else text, ""

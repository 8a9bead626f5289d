"""Turns plain values into a pydantic model, and what pydantic finds wrong into a :class:`ConfigError`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from enginehost.errors import ConfigError
from enginehost.value_faults import fault_text
from enginehost.yaml_document import Loc, Place

OFF_WORDS = frozenset({"off", "false", "no", "none"})
ON_WORDS = frozenset({"on", "true", "yes"})


class _Written(type(BaseModel)):
    """Makes ``HttpSettings(…)`` in a program raise what a file would: :class:`ConfigError`."""

    if not TYPE_CHECKING:  # the constructor's own parameters are what a type checker should see

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except ValidationError as error:
                raise config_error(cls, error, lambda _: Place("")) from None


class Section(BaseModel, metaclass=_Written):
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
    """``value`` as a ``model``. Raises :class:`ConfigError` with all mistakes, each at its place."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise config_error(model, error, locate) from None


def nearest_hint(name: str, names: Collection[str]) -> str:
    """``did you mean …?`` with the name that looks like ``name``, or the names there are."""
    close = _nearest(name, names)
    return f"did you mean {close}?" if close else f"there are {', '.join(names)}"


def _nearest(name: str, names: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.6)), None)


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


def config_error(
    model: type[BaseModel], error: ValidationError, locate: Callable[[Loc], Place]
) -> ConfigError:
    """All mistakes that pydantic found, as the first one with the others."""
    faults: dict[Loc, list[Any]] = {}
    for fault in error.errors(include_url=False, include_input=False):
        if fault["type"] != "default_factory_not_called":  # nobody gave that, so nobody can mend it
            faults.setdefault(_written(model, fault), []).append(fault)
    found = [locate(loc).error(*_explain(model, loc, faults[loc])) for loc in _causes(model, faults)]
    return joined(sorted(found, key=lambda one: (one.path, one.line, one.column)))


def joined(errors: Sequence[ConfigError]) -> ConfigError:
    """Several mistakes as one error: the first, with the others."""
    first, *others = (one for error in errors for one in (error, *error.others))
    first.others = tuple(others)
    for other in others:
        other.others = ()
    return first


def _causes(model: type[BaseModel], faults: Mapping[Loc, list[Any]]) -> list[Loc]:
    """The places of the mistakes: misspelt keys first, and without the missing ones that they account for."""
    misspelt = [loc for loc, found in faults.items() if found[0]["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], name) for loc in misspelt if (name := _nearest(str(loc[-1]), _keys(model, loc)))}
    others = [
        loc
        for loc, found in faults.items()
        if loc not in misspelt and not (found[0]["type"] == "missing" and loc in meant)
    ]
    return [*misspelt, *others]


def _keys(model: type[BaseModel], loc: Loc) -> Collection[str]:
    """The keys of the section in which ``loc`` stands."""
    owner = submodel(model, loc[:-1])
    return owner.model_fields if owner else ()


def _written(model: type[BaseModel], fault: Any) -> Loc:
    """The place of a fault as the keys are written: without the names that pydantic gives to choices."""
    loc: Loc = tuple(fault["loc"])
    if fault["type"] == "extra_forbidden":
        return loc
    for length, part in enumerate(loc):
        owner = submodel(model, loc[:length])
        if isinstance(part, str) and (owner is None or part not in owner.model_fields):
            return loc[:length]
    return loc


def _explain(model: type[BaseModel], loc: Loc, faults: list[Any]) -> tuple[str, str]:
    where, kind = ".".join(str(part) for part in loc), faults[0]["type"]
    if kind == "extra_forbidden":
        return f"unknown key {where!r}", nearest_hint(str(loc[-1]), _keys(model, loc))
    first, *others = dict.fromkeys(fault_text(fault) for fault in faults)
    text = ", or ".join([first, *(other.removeprefix("has to be ") for other in others)])
    hint = "put it in quotes" if kind == "string_type" and not others else ""
    if not where:
        return text, hint
    return f"{where}: {text}" if kind == "value_error" else f"{where} {text}", hint

"""What pydantic finds wrong with an engine's keys, as findings at the keys as the file spells them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from enginehost.config_keys import ConfigKey, as_written, config_keys, spelling
from enginehost.errors import ConfigError
from enginehost.interpret import Declaration
from enginehost.value_faults import bounds_text, fault_text

_MASK = "***"
_SHORTEST_MASKED = 4
_LONGEST_COMPARED = 100


class BadValue(ConfigError, ValueError):
    """What a validator of a config model raises to say what to do (``hint``), besides what is wrong.

    ``reason`` becomes the finding's code. ``key`` is for a validator of the whole model: the key at fault.
    """


def report(
    declaration: Declaration,
    model: type[BaseModel],
    error: ValidationError,
    used: Mapping[str, str],
    unread: Collection[str],
) -> set[str]:
    """Report what is wrong; the fields at fault. Of those ``unread``, and the whole then, all is said."""
    keys = {spelling: key for key in config_keys(model) for spelling in (key.field, key.input_name)}
    confidential = _confidential_texts(declaration, model, used)
    at_fault: set[str] = set()
    for fault in error.errors(include_url=False, include_input=False):
        if fault["type"] == "default_factory_not_called":
            continue
        where = fault["loc"]
        key = keys.get(str(where[0])) if where else None
        at_fault.add(key.field if key else "")
        if key.field in unread if key else unread:
            continue
        if key is not None and fault["type"] == "missing" and len(where) == 1:
            _report_missing(declaration, key, used.get(key.field))
            continue
        name, code, message, hint = _told(declaration, model, key, used, fault)
        declaration.error(name, code, _masked(message, confidential), _masked(hint, confidential))
    return at_fault


def _told(
    declaration: Declaration,
    model: type[BaseModel],
    key: ConfigKey | None,
    used: Mapping[str, str],
    fault: Mapping[str, Any],
) -> tuple[str, str, str, str]:
    """The key at which a fault stands, its code, message and hint."""
    name = used.get(key.field, key.name) if key else ""
    raised = (fault.get("ctx") or {}).get("error")
    if isinstance(raised, BadValue) and not (key and key.secret):
        message, hint = (as_written(declaration, model, text) for text in (raised.message, raised.hint))
        at = name or spelling(declaration, model, raised.key)
        code = "bad-value" if raised.reason == "config" else raised.reason
        return at, code, message if not at or at in message else f"{at}: {message}", hint
    if key is None:
        return "", "bad-config", fault_text(fault), ""
    if key.secret:
        return name, "bad-value", f"{name}: not a value that it may have", key.description
    inner = "".join(f"/{part}" for part in fault["loc"][1:])
    at = f" at {inner}" if inner and key.form != "text" else ""
    colon = ":" if fault["type"] == "value_error" else ""
    plain = key.form == "text" and not colon
    further = f"{bounds_text(key.info.metadata, fault)}{declaration.quote(name)}" if plain else ""
    message = f"{name}{at}{colon} {fault_text(fault)}{further}"
    return name, "bad-value", message, _value_hint(declaration, key, name, fault)


def _value_hint(declaration: Declaration, key: ConfigKey, name: str, fault: Mapping[str, Any]) -> str:
    """What the key is for; of one that takes few words, the nearest: the message lists them."""
    words = [word for kind in _options(key.info.annotation) for word in get_args(kind)]
    if fault["type"] == "literal_error" and words:
        near = difflib.get_close_matches((declaration.text(name) or "")[:_LONGEST_COMPARED], words, n=1)
        return f"did you mean {near[0]}?" if near and not declaration.is_confidential(name) else ""
    default = key.default if isinstance(key.default, str | int | float) else ""
    absent = f"without the key: {default}" if default != "" else ""
    return " ".join(part for part in (key.description, f"({absent})" if absent else "") if part)


def _options(annotation: Any) -> Iterable[Any]:
    """The ``Literal`` types in an annotation."""
    if get_origin(annotation) is Literal:
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _options(part)


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

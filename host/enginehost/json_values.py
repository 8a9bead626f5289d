"""Reading a JSON-valued key: strict where it can be, lenient where people need it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Protocol

import orjson

from enginehost import lenient_json
from enginehost.diagnostics import Severity
from enginehost.lenient_json import MAX_DEPTH, LenientJsonError

MAX_LENIENT = 300_000
"""Characters of a text that is read with good will; a longer one, which no hand wrote, must be JSON."""

_LONG_NUMBER = re.compile(r"[0-9]{19}")


class JsonText(NamedTuple):
    """The JSON text of ``key``: as Java reads it, and as it stands in the file."""

    key: str
    value: str
    raw: str


class Finding(Protocol):
    """Takes what was found at ``offset`` of the value (of the raw text where ``in_raw``)."""

    def __call__(
        self,
        text: JsonText,
        severity: Severity,
        code: str,
        message: str,
        hint: str,
        offset: int,
        in_raw: bool,
    ) -> None:
        """Take one finding."""
        ...


def read_json(text: JsonText, report: Finding) -> Any:
    r"""The value; ``None``, after an error went to ``report``, when there is none.

    Tried in turn: JSON; JSON of the raw text (Java eats the backslash of ``\"``); the lenient
    reading of either. All but the first come with a warning.
    """
    try:
        return _sound(text.value)
    except ValueError as error:
        first = error
    if text.raw != text.value:
        try:
            value = _sound(text.raw)
        except ValueError:
            pass
        else:
            message = "the JSON is read from the text as it stands, without Java's escapes"
            hint = "SEMOSS reads the escapes first: write each backslash of the JSON twice"
            report(text, Severity.WARNING, "json-escapes", message, hint, 0, True)
            return value
    return _read_lenient(text, first, report)


def _read_lenient(text: JsonText, first: ValueError, report: Finding) -> Any:
    offset = getattr(first, "pos", 0)
    fault: LenientJsonError | None = None
    for candidate in dict.fromkeys((text.value, text.raw)):
        if len(candidate) > MAX_LENIENT:
            break
        try:
            value = lenient_json.loads(candidate)
        except LenientJsonError as error:
            fault = error
            continue
        message = f"not strict JSON ({getattr(first, 'msg', first)}), read with good will"
        report(text, Severity.WARNING, "lenient-json", message, "write it as JSON", offset, False)
        return value
    message, position = (str(fault), fault.position) if fault else (str(first), offset)
    hint = _hint(message, at_end=position >= len(text.raw.rstrip()))
    report(text, Severity.ERROR, "malformed-json", message, hint, position, text.raw != text.value)
    return None


def _hint(message: str, *, at_end: bool) -> str:
    """What to do about JSON that cannot be read; ``at_end``: more was expected where the value ends."""
    if at_end:
        return "close what is open; a value goes on in the next line where its line ends with a backslash"
    if "quote" in message:
        return r'close the string; write \\" for a quote inside it'
    if "escape" in message:
        return "write every backslash of the JSON twice, since the file takes one away"
    if "deeper" in message:
        return "write it flatter"
    return 'write JSON, such as ["a", "b"] or {"name": "value"}, with names and texts in double quotes'


def kind_of(value: Any) -> str:
    """What a JSON value is, for people."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _sound(text: str) -> Any:
    value = orjson.loads(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise ValueError(f"lists and objects nest deeper than {MAX_DEPTH}")
    # orjson makes floats of integers beyond 64 bits
    return json.loads(text) if _LONG_NUMBER.search(text) else value


def _depth(value: Any) -> int:
    depth = 0
    level = [value]
    while level := [item for item in level if isinstance(item, (list, dict))]:
        depth += 1
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    return depth

"""Texts with places for parameters: ``--n={n}``.

``{name}`` is the place of a parameter, ``{{name}}`` the text ``{name}``; all other braces are themselves,
so that a program for awk or jq stands in a file as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from enginehost.errors import InvalidArguments
from enginehost.values import NotJson, encode, to_json

_PLACE = re.compile(r"\{(\{)?([^\W\d][\w-]*)\}(?(1)\})")


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts and slots, in order."""

    parts: tuple[str | Slot, ...]

    @property
    def names(self) -> list[str]:
        """The parameters it takes."""
        return [part.name for part in self.parts if isinstance(part, Slot)]

    @property
    def only(self) -> str | None:
        """The parameter, where there is nothing besides."""
        return self.names[0] if len(self.parts) == 1 and self.names else None

    @property
    def begins_with_value(self) -> bool:
        """Whether a value decides its first character."""
        return bool(self.parts) and isinstance(self.parts[0], Slot)

    def filled(self, texts: Mapping[str, str]) -> str:
        """The text with those of the parameters; nothing for one that is not there."""
        return "".join(texts.get(part.name, "") if isinstance(part, Slot) else part for part in self.parts)


def parse(text: str) -> Template:
    """Read a template. Every text is one."""
    return Template(tuple(part for part in _parts(text) if part != ""))


def _parts(text: str) -> Iterator[str | Slot]:
    literal, at = "", 0
    for match in _PLACE.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        if match[1]:
            literal += match[0][1:-1]
        else:
            yield literal
            yield Slot(match[2])
            literal = ""
    yield literal + text[at:]


def text_of(name: str, value: Any) -> str:
    """A value as a program reads it: text as it is, everything else as JSON.

    Raises :class:`InvalidArguments` for what no text can hold.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        raise refused(name, "bytes have no place in a text", "text; COMMAND_STDIN = json takes bytes")
    try:
        plain = to_json(value)
        return plain if isinstance(plain, str) else encode(plain).decode()
    except NotJson as error:
        raise refused(name, error.message) from error


def refused(name: str, message: str, allowed: str = "") -> InvalidArguments:
    """The error for the value of one parameter."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    found = {"pointer": pointer, "message": message} | ({"allowed": allowed} if allowed else {})
    return InvalidArguments(f"at {pointer}: {message}", errors=[found])

"""What is wrong with a document, or cannot be expressed of it."""

from __future__ import annotations

from typing import NamedTuple

from enginehost.errors import ConfigError

Pointer = tuple[str, ...]
"""The way to a place in a document: the unescaped tokens of an RFC 6901 JSON Pointer."""

ROOT = ""
"""The key of the document that was asked for; others have their path beside it, or their URL."""


class Found(NamedTuple):
    """A finding at a place. ``document`` is the key of the document, :data:`ROOT` for the first."""

    message: str
    pointer: Pointer = ()
    document: str = ROOT


class Unmappable(Exception):
    """One operation cannot become a function; ``found`` says why. The others are not touched."""

    def __init__(self, found: Found) -> None:
        super().__init__(found.message)
        self.found = found


def text_of(pointer: Pointer) -> str:
    """The pointer as RFC 6901 writes it."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in pointer)


def broken(message: str, *, hint: str = "", line: int = 0, column: int = 0, name: str = "") -> ConfigError:
    """The error for a document that cannot be read at all."""
    where = f"{name}:{line}: " if name and line else f"{name}: " if name else ""
    text = f"OPENAPI_SPEC: {where}{message}"
    return ConfigError(text, hint=hint, reason="bad-document", key="OPENAPI_SPEC")

"""A Markdown file that begins with YAML between two lines ``---``: AGENT.md, SKILL.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginehost.errors import ConfigError
from enginehost.regular_file import read_utf8
from enginehost.yaml_document import parse_document

MAX_BYTES = 1 << 20
_FENCE = "---"


@dataclass(frozen=True, slots=True)
class Markdown:
    """Such a file: ``head`` is empty where it has none. ``lines`` has the line of each key in the file."""

    path: Path
    body: str
    head: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])

    def fault(self, message: str, key: str = "", hint: str = "") -> ConfigError:
        """An error at the line of a key, or at the first line."""
        return ConfigError(message, path=str(self.path), line=self.lines.get(key, 1), hint=hint)

    def text(self, key: str, *, longest: int) -> str:
        """The text of a key, empty where it is missing. Raises :class:`ConfigError` with its line."""
        value = self.head.get(key)
        if value is None:
            return ""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self.fault(f"{key} has to be a text", key)
        text = str(value).strip()
        if len(text) > longest:
            raise self.fault(f"{key} has {len(text)} characters; {longest} are allowed", key)
        return text


def read_markdown(path: Path) -> Markdown:
    """The file at ``path``. Raises :class:`ConfigError` with the line of whatever is wrong with it."""
    return parse_markdown(read_utf8(path, MAX_BYTES), path)


def parse_markdown(text: str, path: Path) -> Markdown:
    """Likewise, of a text."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return Markdown(path, text.strip())
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        hint = "close it with a line of three hyphens"
        raise ConfigError("the front matter has no end", path=str(path), line=1, hint=hint)
    document = parse_document("\n".join(["", *lines[1:end]]), str(path))  # so that its lines are the file's
    head = document.value if document.value is not None else {}
    if not isinstance(head, dict):
        hint = "write lines such as name: helper"
        raise ConfigError("the front matter has to hold keys", path=str(path), line=2, hint=hint)
    places = {str(loc[0]): place.line for loc, place in document.places.items() if len(loc) == 1}
    return Markdown(path, "\n".join(lines[end + 1 :]).strip(), head, places)

"""What was found in a file: where it is, what is wrong, how to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginehost.errors import ConfigError

IN_PROBLEMS: Mapping[str, object] = {"in_problems": True}
"""``extra`` of a log line that says what ``Host.problems()`` says: who shows those can leave it out."""


class Severity(StrEnum):
    """``error``: the engine does not open. ``warning``: it opens, somebody should look."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. ``line`` and ``column`` count from 1 (columns in characters); 0 is the whole file.

    ``code`` is stable and kebab-case (``duplicate-key``); ``hint`` says what to do.
    """

    path: str
    line: int
    column: int
    severity: Severity
    code: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}: " if self.line else self.path and f"{self.path}: "
        text = f"{where}{self.severity}: {self.message} [{self.code}]"
        return f"{text}\n    hint: {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self) | {"severity": str(self.severity)}

    def to_github(self) -> str:
        """The finding as a GitHub Actions workflow command (``::error file=…``)."""
        text = f"{self.message} ({self.hint})" if self.hint else self.message
        data = _escaped(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))
        file = _property(self.path)
        place = f"file={file},line={self.line or 1},col={self.column or 1},title={_property(self.code)}"
        return f"::{self.severity} {place}::{data}"


def error_diagnostics(error: ConfigError, code: str) -> list[Diagnostic]:
    """Wrong settings as findings, one for each mistake."""
    return [
        Diagnostic(one.path, one.line, one.column, Severity.ERROR, code, one.message, one.hint)
        for one in (error, *error.others)
    ]


FAILED_BEFORE = "failed-before"
"""The code of an engine's warning that it could not be opened last time: the next attempt has the news."""


def without(code: str, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The findings of other codes."""
    return tuple(found for found in diagnostics if found.code != code)


def _property(text: str) -> str:
    for raw, escaped in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        text = text.replace(raw, escaped)
    return _escaped(text)


def _escaped(text: str) -> str:
    """``text`` without what would steer a terminal: a log is read there too."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)

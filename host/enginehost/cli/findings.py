"""What ``doctor`` finds: one line each, with what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import ConfigError


class Grade(StrEnum):
    """How good a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding in an ``area`` (settings, plugins, files, …); ``where`` is a file or variable."""

    area: str
    grade: Grade
    message: str
    hint: str = ""
    where: str = ""

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self) | {"grade": str(self.grade)}


def fine(area: str, message: str, where: str = "") -> Finding:
    """Something is as it should be."""
    return Finding(area, Grade.OK, message, where=where)


def doubtful(area: str, message: str, hint: str = "") -> Finding:
    """Somebody should look."""
    return Finding(area, Grade.WARNING, message, hint)


def wrong(area: str, message: str, hint: str = "") -> Finding:
    """Something does not work."""
    return Finding(area, Grade.ERROR, message, hint)


def of_error(area: str, error: ConfigError) -> list[Finding]:
    """Wrong settings, one finding each."""
    return [Finding(area, Grade.ERROR, one.message, one.hint, one.where) for one in (error, *error.others)]


def of_diagnostic(area: str, found: Diagnostic) -> Finding:
    """A finding in a file."""
    where = f"{found.path}:{found.line}:{found.column}" if found.line else found.path
    grade = Grade.ERROR if found.severity is Severity.ERROR else Grade.WARNING
    return Finding(area, grade, found.message, found.hint, where)

"""How an error looks to the person, or the program, that ran the command."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from enginehost.errors import ERROR_TABLE, ConfigError, EngineHostError, EngineUnavailable, InvalidRequest


@dataclass(slots=True)
class Reporting:
    """What the command line said about errors: as JSON, with a traceback."""

    json: bool = False
    debug: bool = False

    def reset(self) -> None:
        """Back to text without traceback."""
        self.json = self.debug = False


REPORTING = Reporting()
"""One per process: a process runs one command."""


class CommandError(InvalidRequest):
    """The command line asks for what makes no sense, or for what is not there."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, detail={"hint": hint} if hint else None)


class NoHost(EngineUnavailable):
    """No host answers at the URL."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.detail["hint"] = hint


def report(error: BaseException) -> int:
    """Write ``error`` to standard error; the exit code that belongs to it."""
    if REPORTING.debug:
        import traceback

        traceback.print_exception(error)
    if not isinstance(error, EngineHostError):
        error = _unforeseen(error)
    if REPORTING.json:
        print(_as_json(error), file=sys.stderr)  # noqa: T201
    else:
        _write_text(error)
    return ERROR_TABLE[error.code].exit


def _unforeseen(error: BaseException) -> EngineHostError:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return CommandError(f"{where}{error.strerror}")
    found = CommandError(
        f"{type(error).__name__}: {error}", hint="this is a bug; `enginehost --debug …` shows where it is"
    )
    return EngineHostError(found.message, detail=found.detail)


def _as_json(error: EngineHostError) -> str:
    import json

    body: dict[str, Any] = {"error": error.to_json()}
    if isinstance(error, ConfigError) and error.path:
        body["error"] |= {"path": error.path, "line": error.line, "column": error.column}
    return json.dumps(body, ensure_ascii=False, default=str)


def _write_text(error: EngineHostError) -> None:
    from enginehost.cli.output import emphasised, printable

    place = ""
    if isinstance(error, ConfigError):
        place = ":".join(str(part) for part in (error.path, error.line, error.column) if part)
    text = f"{place}: {error.message}" if place else error.message
    lines = [f"{emphasised('error:', sys.stderr, 'red')} {printable(text)}"]
    lines += [
        f"  {printable(found.get('pointer') or '/')}: {printable(found['message'])}"
        for found in error.detail.get("errors", [])[1:6]
    ]
    if hint := error.detail.get("hint"):
        lines.append(f"{emphasised('hint:', sys.stderr, 'cyan')} {printable(str(hint))}")
    print("\n".join(lines), file=sys.stderr)  # noqa: T201

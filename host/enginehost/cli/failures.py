"""How an error looks to the person, or the program, that ran the command."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from enginehost.cli.secrecy import masked, masked_json, plain_errors
from enginehost.errors import ERROR_TABLE, ConfigError, EngineHostError, EngineUnavailable, InvalidRequest


@dataclass(slots=True)
class Reporting:
    """What the command line said about errors: as JSON, with a traceback."""

    json: bool = False
    debug: bool = False

    def reset(self, words: Sequence[str] = ()) -> None:
        """Before the command that ``words`` make is read: its own mistakes are told as it asks, too."""
        options = words[: words.index("--")] if "--" in words else words
        self.json = any(word == "--json" or word.startswith("--json=") for word in options)
        self.debug = False


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

        from enginehost.cli.output import note, printable

        note(printable(masked("".join(traceback.format_exception(error)).rstrip())))
    if not isinstance(error, EngineHostError):
        error = _unforeseen(error)
    if REPORTING.json:
        print(_as_json(error), file=plain_errors())
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

    body = _with_place(error)
    if isinstance(error, ConfigError) and error.others:
        body["others"] = [_with_place(other) for other in error.others]
    whole = masked_json(json.loads(json.dumps({"error": body}, default=str)))
    text = json.dumps(whole, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(whole)


def _with_place(error: EngineHostError) -> dict[str, Any]:
    body = error.to_json()
    if isinstance(error, ConfigError) and error.path:
        body |= {"path": error.path, "line": error.line, "column": error.column}
    return body


def _write_text(error: EngineHostError) -> None:
    others = error.others if isinstance(error, ConfigError) else ()
    print("\n".join(line for one in (error, *others) for line in _lines(one)), file=sys.stderr)  # noqa: T201


def _lines(error: EngineHostError) -> Iterator[str]:
    from enginehost.cli.output import emphasised, escaped, printable

    place = escaped(error.where) if isinstance(error, ConfigError) else ""
    text = f"{place}: {error.message}" if place else error.message
    yield f"{emphasised('error:', sys.stderr, 'red')} {printable(masked(text))}"
    told = (found for found in error.detail.get("errors", [])[1:] if found["message"] not in error.message)
    for found in told:
        yield f"  {escaped(found.get('pointer') or 'arguments')}: {printable(masked(found['message']))}"
    if hint := error.detail.get("hint"):
        yield f"{emphasised('hint:', sys.stderr, 'cyan')} {printable(masked(str(hint)))}"

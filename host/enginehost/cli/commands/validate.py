"""``enginehost validate``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from enginehost.cli.checking import check
from enginehost.cli.options import DEFAULT_FOLDER, Config, Json
from enginehost.cli.output import (
    counted,
    emphasised,
    escaped,
    from_here,
    print_json,
    printable,
    say,
    waiting,
)
from enginehost.diagnostics import Diagnostic, Severity

app = typer.Typer()

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


class Format(StrEnum):
    """How findings are printed; ``github`` makes annotations of GitHub Actions."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@app.command()
def validate(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="smss files and folders (default: smss).", show_default=False)
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print what was found.")] = Format.TEXT,
    load: Annotated[
        bool, typer.Option("--load", help="Load their code too, in worker processes, and connect.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at warnings too.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Check smss files without running them (unless asked to load their code).

    Exit code 1 when there are errors.
    """
    with waiting("checking"):
        files, found = check(paths or [DEFAULT_FOLDER], config, load=load)
    found = [replace(one, path=from_here(one.path)) for one in found]
    _print(files, found, Format.JSON if json else output)
    counts = Counter(one.severity for one in found)
    if counts[Severity.ERROR] or (strict and found):
        raise typer.Exit(1)


def _print(files: int, found: Sequence[Diagnostic], output: Format) -> None:
    counts = Counter(one.severity for one in found)
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    if output is Format.JSON:
        print_json(
            {
                "files": files,
                "errors": errors,
                "warnings": warnings,
                "diagnostics": [one.to_json() for one in found],
            }
        )
        return
    for one in found:
        say(one.to_github() if output is Format.GITHUB else _as_text(one))
    if output is Format.TEXT:
        say(f"{counted(files, 'file')}, {counted(errors, 'error')}, {counted(warnings, 'warning')}")


def _as_text(found: Diagnostic) -> str:
    word = emphasised(str(found.severity), sys.stdout, _COLOURS[found.severity])
    safe = replace(
        found, path=escaped(found.path), message=printable(found.message), hint=printable(found.hint)
    )
    return str(safe).replace(f": {found.severity}: ", f": {word}: ", 1)

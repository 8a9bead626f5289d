"""``enginehost doctor``."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import typer

from enginehost.cli.examination import examine
from enginehost.cli.findings import Finding, Grade
from enginehost.cli.options import Config, FolderArgument, FolderOrUrl, Json, Token, Url
from enginehost.cli.output import emphasised, escaped, print_json, printable, say, waiting
from enginehost.cli.secrecy import masked
from enginehost.cli.source import Where

app = typer.Typer()

_MARKS = {Grade.OK: ("ok", "green"), Grade.WARNING: ("warn", "yellow"), Grade.ERROR: ("FAIL", "red")}


@app.command()
def doctor(
    path: FolderArgument = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say in one page what is wrong here and how to mend it.

    Looks at settings, plugins, files, databus, ports and limits. Exit code 1 when something is wrong.
    """
    where = Where.given(folder, config, url, token, path)
    with waiting("examining"):
        found = asyncio.run(examine(where))
    found = [replace(one, message=masked(one.message), hint=masked(one.hint)) for one in found]
    grades = Counter(one.grade for one in found)
    if json:
        print_json({"ok": not grades[Grade.ERROR], "findings": [one.to_json() for one in found]})
    else:
        _print(found, grades)
    if grades[Grade.ERROR]:
        raise typer.Exit(1)


def _print(found: Sequence[Finding], grades: Counter[Grade]) -> None:
    area = ""
    for one in found:
        mark, style = _MARKS[one.grade]
        where = f"  [{one.where}]" if one.where else ""
        text = escaped(f"{one.message}{where}".replace("\n", " "))
        title = "" if one.area == area else one.area
        say(f"{title:<10} {emphasised(f'{mark:<4}', sys.stdout, style)}  {text}")
        if one.hint:
            say(f"{'':<17}{emphasised('mend:', sys.stdout, 'cyan')} {printable(one.hint)}")
        area = one.area
    wrong, doubtful = grades[Grade.ERROR], grades[Grade.WARNING]
    say(f"\n{wrong} wrong, {doubtful} doubtful" if wrong or doubtful else "\nall is well")

"""``enginehost new``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Folder, Json
from enginehost.cli.output import emphasised, escaped, print_json, printable, say
from enginehost.cli.scaffold import CALL, KINDS, new_files, write_files
from enginehost.plugins import PluginRegistry

app = typer.Typer()


@app.command()
def new(
    kind: Annotated[
        str, typer.Argument(help=f"{', '.join(KINDS)}, or another kind that `enginehost plugins` lists.")
    ],
    name: Annotated[str, typer.Argument(help="The function's name; the files are named after it.")],
    folder: Folder = DEFAULT_FOLDER,
    json: Json = False,
) -> None:
    """Write a first smss file of a kind, with its script."""
    made = new_files(kind, name, folder, PluginRegistry)
    paths = write_files(folder, made.texts)
    if json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        say(f"{emphasised('wrote', sys.stdout, 'green')} {escaped(str(path))}")
    for found in made.missing:
        say(f"{emphasised('mend', sys.stdout, 'yellow')}  {printable(found.message)}")
        if found.hint:
            say(f"      {printable(found.hint)}")
    if made.missing:
        say(f"then  {shlex.join(['enginehost', 'validate', str(paths[0])])}")
    else:
        say(f"try   {_call(made.texts[paths[0].name], folder)}")


def _call(text: str, folder: Path) -> str:
    """The call that the file's own head proposes."""
    line = next(line for line in text.splitlines() if line.startswith(CALL))
    where = "" if folder == DEFAULT_FOLDER else f" --folder {shlex.quote(str(folder))}"
    return f"{line.removeprefix(CALL).strip()}{where}"

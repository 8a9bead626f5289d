"""``enginehost new``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Folder, Json
from enginehost.cli.output import emphasised, print_json, say
from enginehost.cli.scaffold import KINDS, new_files, write_files
from enginehost.plugins import PluginRegistry

app = typer.Typer()


@app.command()
def new(
    kind: Annotated[
        str, typer.Argument(help=f"{', '.join(KINDS)}, or a kind of a plugin (see `enginehost plugins`).")
    ],
    name: Annotated[str, typer.Argument(help="The function's name; the files are named after it.")],
    folder: Folder = DEFAULT_FOLDER,
    json: Json = False,
) -> None:
    """Write a first smss file of a kind, with its script."""
    paths = write_files(folder, new_files(kind, name, folder, PluginRegistry))
    if json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        say(f"{emphasised('wrote', sys.stdout, 'green')} {path}")
    say(f"try   {_first_line(paths[0].read_text(encoding='utf-8'), folder == DEFAULT_FOLDER, str(folder))}")


def _first_line(text: str, default: bool, folder: str) -> str:
    """The call that the file's own head proposes."""
    line = next(line for line in text.splitlines() if "enginehost call" in line)
    command = line[line.index("enginehost call") :]
    return command if default else f"{command} --folder {folder}"

"""``enginehost mcp``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config
from enginehost.cli.source import require_folder

app = typer.Typer()


@app.command()
def mcp(
    folder: Annotated[Path, typer.Argument(help="The folder with the smss files.")] = DEFAULT_FOLDER,
    tags: Annotated[
        str, typer.Option(metavar="A,B", help="Only the functions that have one of these tags.")
    ] = "",
    bus: Annotated[bool, typer.Option("--bus", help="With the databus, where it is installed.")] = False,
    config: Config = None,
) -> None:
    """Serve a folder to the MCP client that starts this, over stdin and stdout.

    It needs no running host, and ends when its input does. The log goes to stderr.
    """
    require_folder(folder)
    from enginehost.cli.serving_mcp import serve_stdio
    from enginehost.settings import load_settings

    settings = load_settings(
        folder, config=config, http__enabled=False, databus__enabled=None if bus else False
    )
    wanted = frozenset(tag.strip() for tag in tags.split(",") if tag.strip())
    raise typer.Exit(serve_stdio(folder, settings, wanted))

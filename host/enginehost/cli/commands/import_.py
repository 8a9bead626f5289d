"""``enginehost import``: a command for each kind of source."""

from __future__ import annotations

import typer

from enginehost.cli.importers import add_importers
from enginehost.cli.semoss.command import semoss

app = typer.Typer(no_args_is_help=True)


@app.callback()
def importing() -> None:
    """Make smss files of what other programs wrote."""


app.command()(semoss)
add_importers(app)

"""``enginehost databus``: a module for each of its commands, which imports what is heavy when it runs."""

from __future__ import annotations

import typer

from enginehost.cli.databus.idl import idl
from enginehost.cli.databus.keygen import keygen
from enginehost.cli.databus.show import CommandsOrFolder, show
from enginehost.cli.databus.trust import trust

app = typer.Typer(cls=CommandsOrFolder, invoke_without_command=True)

app.callback()(show)
app.command()(idl)
app.command()(keygen)
app.command()(trust)

"""``enginehost databus`` without a further command: who and what is on the bus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from enginehost.cli.options import DEFAULT_FOLDER, Config, FolderArgument, Json
from enginehost.cli.output import note, print_json, waiting

if TYPE_CHECKING:
    from enginehost.databus.config import DatabusConfig

DEFAULT_WAIT = 2.0


class CommandsOrFolder(TyperGroup):
    """A group whose first word is one of its commands, or else an argument of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read options and argument of the group itself; a command begins at its name."""
        at = self._place_of_command(args)
        ctx.allow_interspersed_args = True
        super().parse_args(ctx, args[:at])
        # where typer's own groups keep the words of a command until it is invoked
        ctx._protected_args, ctx.args = args[at : at + 1], args[at + 1 :]
        return ctx.args

    def _place_of_command(self, args: list[str]) -> int:
        """Where a command's name stands as the first word that is neither an option nor an option's value."""
        taking = {name for one in self.params if not getattr(one, "is_flag", True) for name in one.opts}
        place = 0
        while place < len(args):
            word = args[place]
            if not word.startswith("-"):
                return place if word in self.commands else len(args)
            place += 2 if word in taking else 1
        return len(args)


def show(
    context: typer.Context,
    path: FolderArgument = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", "-f", help="The folder with the smss files (smss).", show_default=False),
    ] = None,
    domain: Annotated[
        int | None, typer.Option(min=0, max=232, help="The DDS domain (0).", show_default=False)
    ] = None,
    bus_interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The network interface (lo: this machine).", show_default=False),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="How long to look, at least.")
    ] = DEFAULT_WAIT,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print what happens, a line each, until Ctrl+C.")
    ] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Look at the databus: who and what is on it, and what is wrong.

    Joins the bus as the host of the folder would, looks for some seconds and leaves it. Exit code 1 when it
    finds something wrong.
    """
    if context.invoked_subcommand is not None:
        return
    _require_meaning(context, path)
    bus = _config(path, folder, config, domain, bus_interface)
    if watch:
        from enginehost.cli.databus.watching import watch_bus

        watch_bus(bus, as_json=json)
        return
    from enginehost.databus.survey import survey_now

    with waiting("looking at the databus"):
        found = survey_now(bus, wait)
    if json:
        print_json(found.to_json())
    else:
        from enginehost.cli.databus.page import print_page

        print_page(found)
    if not found.ok:
        raise typer.Exit(1)


def _require_meaning(context: typer.Context, path: Path | None) -> None:
    """A word that is neither a folder nor a command is a mistyped one of either."""
    if path is not None and not path.exists():
        from enginehost.cli.failures import CommandError

        group: Any = context.command
        hint = f"the commands are {', '.join(group.commands)}"
        raise CommandError(f"there is no folder {path}, and no such command of databus", hint=hint)


def _config(
    path: Path | None, folder: Path | None, config: Path | None, domain: int | None, interface: str | None
) -> DatabusConfig:
    """The bus of that folder's host. A folder that is named has to be there; ``smss`` need not."""
    from enginehost.cli.source import Where, require_folder
    from enginehost.databus.config import config_of
    from enginehost.settings import load_settings

    where = Where.given(folder, config, None, None, path)
    if where.folder != DEFAULT_FOLDER:
        require_folder(where.folder)
    settings = load_settings(
        where.folder, config=where.config, databus__domain=domain, databus__interface=interface
    )
    if settings.databus.enabled is False:
        note("the databus is off in these settings: a host would not join it")
    return config_of(settings)

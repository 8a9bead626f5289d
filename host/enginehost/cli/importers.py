"""The importers of plugins as commands (see :mod:`enginehost.importing`), and what they print."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from enginehost.cli.importing import Outcome, Status, write_imported
from enginehost.cli.options import DEFAULT_FOLDER, Json
from enginehost.cli.output import counted, print_json, printable, say, waiting
from enginehost.entrypoints import IMPORTERS, Alias
from enginehost.errors import ConfigError
from enginehost.importing import Imported, Note
from enginehost.plugins import PluginRegistry

_TOLD = 50
"""Findings that are printed; ``--json`` has all."""

_KEPT = {
    Status.EDITED: "kept: it was edited",
    Status.CONFLICT: "kept: it was edited, and what it was made of has changed (--force overwrites it)",
    Status.FOREIGN: "kept: it was not written by this import (--force overwrites it)",
}


def add_importers(app: typer.Typer) -> None:
    """Add a command for each entry point of group ``enginehost.importers``; the names there are stay.

    One that is broken says so when it is run, and harms no other.
    """
    registry = PluginRegistry()
    taken = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    for alias in registry.aliases(IMPORTERS):
        if alias.name not in taken:
            app.command(alias.name)(_made(registry, alias))


def _made(registry: PluginRegistry, alias: Alias) -> Callable[..., None]:
    try:
        return _command(alias, registry.load(alias))
    except ConfigError as error:
        return _broken(error)
    except Exception as error:  # noqa: BLE001 - the plugin boundary: it may name anything
        message = f"the importer {alias.name} of {alias.distribution} is no function with options: {error}"
        return _broken(ConfigError(message, reason="plugin-broken"))


def _broken(error: ConfigError) -> Callable[..., None]:
    def run() -> None:
        raise error

    run.__doc__ = f"(Broken: {error.message}.)"
    return run


def _common(
    to: Annotated[
        Path | None,
        typer.Option(help="The folder to write to (a folder of its own in smss).", show_default=False),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite also files that were edited, or that it did not write."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be, and write nothing.")] = False,
    json: Json = False,
) -> None:
    """Hold the options that every importer has."""


def _command(alias: Alias, importer: Callable[..., Any]) -> Callable[..., None]:
    """A command with the importer's own options and those that all have."""
    own = inspect.signature(importer, eval_str=True)
    common = inspect.signature(_common, eval_str=True)

    def run(**given: Any) -> None:
        options = {name: given.pop(name) for name in common.parameters}
        with waiting("importing"):
            made = importer(**given)
            if not isinstance(made, Imported):
                message = f"the importer {alias.name} answers with {type(made).__name__}, not Imported"
                hint = f"mend or uninstall {alias.distribution}"
                raise ConfigError(message, hint=hint, reason="plugin-broken")
            folder = options["to"] or DEFAULT_FOLDER / made.folder
            outcome = write_imported(
                alias.name, made, folder, force=options["force"], dry_run=options["dry_run"]
            )
        _print(outcome, as_json=options["json"], dry_run=options["dry_run"])
        if not outcome.written:
            raise typer.Exit(1)

    parameters = [*own.parameters.values(), *common.parameters.values()]
    setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010 - Typer reads it
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__ = importer.__doc__
    return run


def _print(outcome: Outcome, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(outcome.to_json() | {"dry_run": dry_run})
        return
    lines: list[str] = []
    for one in outcome.written:
        lines += [f"{_place(note)}{one.origin}: {note.message}" for note in one.notes]
    lines += [f"{_place(note)}left out: {note.message}" for note in outcome.skipped]
    lines += [f"{_place(note)}{note.message}" for note in outcome.notes]
    _say_some(lines)
    _say_some([f"{one.path}: {_KEPT[one.status]}" for one in outcome.written if one.status in _KEPT])
    _say_some([f"{path}: what it was made of is gone; delete it if nobody needs it" for path in outcome.gone])
    counts = ", ".join(f"{number} {status}" for status, number in outcome.counts().items())
    counts = f" ({counts})" if counts else ""
    left = f", {len(outcome.skipped)} left out" if outcome.skipped else ""
    would = "; nothing was written" if dry_run else ""
    say(printable(f"{outcome.folder}: {counted(len(outcome.written), 'function')}{counts}{left}{would}"))


def _say_some(lines: Sequence[str]) -> None:
    for line in lines[:_TOLD]:
        say(printable(line))
    if len(lines) > _TOLD:
        say(f"… and {len(lines) - _TOLD} more (--json has all)")


def _place(note: Note) -> str:
    where = ":".join(str(part) for part in (note.document, note.line) if part)
    return f"{where}: " if where else ""

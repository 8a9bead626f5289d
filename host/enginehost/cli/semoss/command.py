"""``enginehost import semoss``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config, Json


def semoss(
    source: Annotated[
        Path, typer.Argument(help="SEMOSS's folder `function`, or an archive (ZIP) that it exported.")
    ],
    to: Annotated[Path, typer.Option("--to", help="The folder that a host serves.")] = DEFAULT_FOLDER,
    force: Annotated[
        bool, typer.Option("--force", help="Replace engines that are there, with their folders.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Import what cannot run too, to mend it there.")
    ] = False,
    no_load: Annotated[
        bool, typer.Option("--no-load", help="Judge by the files alone: none of their code is run.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be, and write nothing.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Take function engines of SEMOSS, and say of each file whether it runs here.

    Their code is loaded in worker processes, and not called. Exit code 1 when a file cannot run or was not
    imported.
    """
    from enginehost.cli.output import waiting
    from enginehost.cli.semoss.importing import Wishes, import_semoss
    from enginehost.cli.semoss.report import print_report

    wishes = Wishes(dry_run, force, everything, not no_load, config)
    with waiting(f"importing {source}"):
        report = import_semoss(source, to, wishes)
    print_report(report, as_json=json)
    if report.failed:
        raise typer.Exit(1)

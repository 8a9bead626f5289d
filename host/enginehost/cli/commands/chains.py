"""``enginehost chains``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json
from enginehost.cli.output import note, print_json, print_table

app = typer.Typer()


@app.command()
def chains(
    failed: Annotated[bool, typer.Option("--failed", help="Only those in which a step failed.")] = False,
    most: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 20,
    root: Annotated[
        str, typer.Option(help="Only those that begin with this function.", show_default=False)
    ] = "",
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """List the latest recorded chains, for `replay` and `why`."""
    from enginehost.cli.chains.drawing import SHORT, cut, link_words, moment
    from enginehost.cli.chains.recorded import recorded
    from enginehost.monitoring.database import latest
    from enginehost.monitoring.decisions import linked

    with recorded(folder, config) as link:
        found = latest(link, most=most, failed=failed, root=root)
        links = linked(link, [one.chain for one in found])
    if json:
        others = {chain: [one.to_json() for one in several] for chain, several in links.items()}
        print_json({"chains": [one.to_json() | {"linked": others.get(one.chain, [])} for one in found]})
        return
    if not found:
        note("no chain has been recorded" if not failed else "no recorded chain has failed")
        return
    rows = [
        (
            one.chain[: 2 * SHORT],
            moment(one.started),
            cut(one.root),
            one.status,
            "yes" if one.failed else "",
            f"{max(0.0, one.modified - one.started) * 1000:.1f}",
            "; ".join(map(link_words, links.get(one.chain, []))),
        )
        for one in found
    ]
    print_table(("CHAIN", "STARTED", "FIRST STEP", "STATUS", "FAILURES", "MS", "LINKED"), rows)
    sys.stdout.flush()

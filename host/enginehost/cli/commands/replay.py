"""``enginehost replay``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enginehost.cli.options import Config, FolderOrUrl, Json, Token, Url
from enginehost.cli.output import emphasised, print_json, say, waiting

if TYPE_CHECKING:
    from enginehost.monitoring.again import Again
    from enginehost.monitoring.seen import Seen

app = typer.Typer()


@app.command()
def replay(
    chain: Annotated[str, typer.Argument(help="The chain's id, or its beginning.")],
    run: Annotated[
        bool, typer.Option("--run", help="Make its read-only calls once more, and show what differs.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds that each call may take.", show_default=False)
    ] = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show a recorded chain as a timeline.

    It has what went in and came out, where that was recorded. With --run the calls are asked of the folder's
    functions, or of the host at --url. Exit code 1 when something differs.
    """
    from enginehost.cli.chains.drawing import moment, timeline
    from enginehost.cli.chains.recorded import chosen, recorded
    from enginehost.cli.options import DEFAULT_FOLDER

    with recorded(folder or DEFAULT_FOLDER, config) as link:
        head, steps = chosen(link, chain)
    results: list[Again] = []
    if run:
        from enginehost.cli.source import Where

        where = Where.given(folder, config if url is None else None, url, token)
        with waiting("making the calls once more"):
            results = asyncio.run(_again(where, steps, timeout))
    differs = any(one.verdict in ("differs", "fails", "gone") for one in results)
    if json:
        ordered = sorted(steps.values(), key=lambda one: (one.started, one.call))
        found = {"chain": head.to_json(), "steps": [one.to_json() for one in ordered]}
        print_json(found | ({"run": [one.to_json() for one in results]} if run else {}))
    else:
        say(f"chain {head.chain}  {moment(head.started)}")
        for line in timeline(steps):
            say(line)
        if run:
            _print_results(results)
    sys.stdout.flush()
    if differs:
        raise typer.Exit(1)


async def _again(where: Any, steps: Mapping[str, Seen], timeout: float | None) -> list[Again]:
    from enginehost.monitoring.again import again, calls_of

    async with where.open() as source:
        return [await again(seen, source, timeout) for seen in calls_of(steps)]


_STYLES = {"same": "green", "works": "green", "differs": "yellow", "fails": "red", "gone": "red"}


def _print_results(results: list[Again]) -> None:
    from enginehost.cli.chains.drawing import cut
    from enginehost.values import encode

    say()
    say(emphasised("today", sys.stdout, "bold"))
    for one in results:
        verdict = emphasised(f"{one.verdict:<8}", sys.stdout, _STYLES.get(one.verdict, "dim"))
        say(f"{verdict} {cut(one.name)}  {cut(one.reason, 200)}".rstrip())
        if one.verdict == "differs":
            say(f"         then {cut(encode(one.then).decode(), 300)}")
            say(f"         now  {cut(encode(one.now).decode(), 300)}")

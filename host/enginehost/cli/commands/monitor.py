"""``enginehost monitor``."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json
from enginehost.cli.output import note, on_terminal, print_json

if TYPE_CHECKING:
    from enginehost.cli.monitor.showing import Show
    from enginehost.cli.monitor.watching import Filter, Watched
    from enginehost.monitoring.seen import Seen
    from enginehost.monitoring.writer import ChainWriter
    from enginehost.settings import HostSettings

app = typer.Typer()

GRAPH_SECONDS = 3.0


@app.command()
def monitor(
    component: Annotated[
        str, typer.Option(help="Only steps and components with this in a name or an id.", show_default=False)
    ] = "",
    chain: Annotated[str, typer.Option(help="Only the chain whose id begins so.", show_default=False)] = "",
    errors: Annotated[bool, typer.Option("--errors", help="Only what failed.")] = False,
    since: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="MINUTES", help="Begin with what was recorded so long ago.", show_default=False
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="End after so long; else at Ctrl+C.", show_default=False)
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Print who is there and who called whom, after --seconds (3).")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Record what is seen in the database of the settings.")
    ] = False,
    domain: Annotated[
        int | None, typer.Option(min=0, max=232, help="The DDS domain (0).", show_default=False)
    ] = None,
    bus_interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The network interface (lo: this machine).", show_default=False),
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Watch who is on the databus and what they do.

    Shows components, chains of calls as trees, rates and errors. Needs no host here. On a
    terminal it draws a picture, elsewhere it prints lines; --json: an event a line.
    """
    from enginehost.cli.monitor.showing import print_graph
    from enginehost.cli.monitor.watching import Filter, Watched
    from enginehost.settings import load_settings

    settings = load_settings(folder, config=config, databus__domain=domain, databus__interface=bus_interface)
    wanted, watched = Filter(component, chain.lower(), errors), Watched()
    show = None if graph else _show(watched, wanted, json=json)
    if since is not None:
        _begin_with(watched, show, folder, config, time.time() - since * 60)
    with _writer(settings, record=record) as writer:
        _watch(settings, watched, show, writer, GRAPH_SECONDS if graph and seconds is None else seconds)
    if graph:
        (print_json if json else print_graph)(watched.graph())
    if writer is not None:
        note(f"{writer.recorded} events recorded, {writer.dropped} dropped")
    sys.stdout.flush()


def _show(watched: Watched, wanted: Filter, *, json: bool) -> Show:
    from enginehost.cli.monitor.showing import AsJson, AsLines, AsPicture

    if json:
        return AsJson(wanted)
    return (AsPicture if on_terminal(sys.stdout) else AsLines)(watched, wanted)


def _watch(
    settings: HostSettings,
    watched: Watched,
    show: Show | None,
    writer: ChainWriter | None,
    seconds: float | None,
) -> None:
    from enginehost.cli.monitor.watching import listening
    from enginehost.databus.config import config_of
    from enginehost.monitoring.seen import Seen

    try:
        for batch in listening(config_of(settings), seconds):
            for one in batch:
                known = watched.take(one)
                if writer is not None and isinstance(known, Seen):
                    writer.put(_as_it_is, known)
                if known is not None and show is not None:
                    show.news(known)
            if show is not None:
                show.tick()
    except KeyboardInterrupt:
        pass
    if show is not None:
        show.end()


def _as_it_is(seen: Seen) -> tuple[Seen]:
    return (seen,)


@contextmanager
def _writer(settings: HostSettings, *, record: bool) -> Generator[ChainWriter | None]:
    if not record:
        yield None
        return
    from enginehost.monitoring.writer import ChainWriter
    from enginehost.store.place import database_url

    url = database_url(settings.store.url, settings.state_dir)
    writer = ChainWriter(url, days=settings.chain_days, lock_timeout=settings.store.lock_timeout)
    writer.open()
    try:
        yield writer
    finally:
        writer.close()


def _begin_with(watched: Watched, show: Show | None, folder: Path, config: Path | None, after: float) -> None:
    from enginehost.cli.chains.recorded import recorded
    from enginehost.monitoring.chains import MOST_CHAINS
    from enginehost.monitoring.database import latest, steps_of

    with recorded(folder, config) as link:
        for head in reversed(latest(link, most=MOST_CHAINS, after=after)):
            for seen in steps_of(link, head.chain).values():
                known = watched.take(seen)
                if known is not None and show is not None:
                    show.news(known)

"""``enginehost run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config
from enginehost.cli.source import require_folder

app = typer.Typer()


@app.command()
def run(
    folder: Annotated[Path, typer.Argument(help="The folder with the smss files.")] = DEFAULT_FOLDER,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where HTTP listens (127.0.0.1:8484; port 0 is a free one)."),
    ] = None,
    no_http: Annotated[bool, typer.Option("--no-http", help="Without HTTP.")] = False,
    domain: Annotated[
        int | None, typer.Option(min=0, max=232, help="The DDS domain of the databus (0).")
    ] = None,
    bus_interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The network interface of the databus (lo: this machine)."),
    ] = None,
    no_bus: Annotated[bool, typer.Option("--no-bus", help="Without databus.")] = False,
    drain: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="How long running calls may go on at a stop (10)."),
    ] = None,
    log: Annotated[
        Literal["auto", "json", "console"] | None, typer.Option(help="JSON lines, or lines for people.")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, typer.Option(help="The least severe line.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As --log json; errors too.")] = False,
    config: Config = None,
) -> None:
    """Serve a folder of smss files until stopped.

    What is not given here comes from ENGINEHOST_* variables, then from enginehost.yaml. SIGTERM and Ctrl+C
    let the running calls end; another one, after a second or later, stops at once. SIGHUP reads the policy
    again.
    """
    require_folder(folder)
    from enginehost.cli.running import run_host
    from enginehost.settings import load_settings

    settings = load_settings(
        folder,
        config=config,
        http__address=http,
        http__enabled=False if no_http else None,
        databus__domain=domain,
        databus__interface=bus_interface,
        databus__enabled=False if no_bus else None,
        drain_seconds=drain,
        log__format="json" if json else log,
        log__level=log_level,
    )
    raise typer.Exit(run_host(folder, settings))

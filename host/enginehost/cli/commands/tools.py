"""``enginehost tools``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from enginehost.cli.options import (
    BusInterface,
    Config,
    Domain,
    FolderArgument,
    FolderOrUrl,
    Json,
    Kind,
    OnBus,
    Tags,
    Token,
    Url,
    split_tags,
)
from enginehost.cli.output import print_json
from enginehost.cli.source import BusPlace, Source, Where, ask

app = typer.Typer()


@app.command()
def tools(
    path: FolderArgument = None,
    kind: Annotated[
        str,
        Kind,
    ] = "openai",
    tags: Tags = "",
    query: Annotated[
        str, typer.Option("--for", metavar="QUERY", help="Only those that fit what is asked, the best first.")
    ] = "",
    most: Annotated[int | None, typer.Option("--most", min=1, max=1000, help="At most so many.")] = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    bus: OnBus = False,
    domain: Domain = None,
    bus_interface: BusInterface = None,
    json: Json = False,
) -> None:
    """Print the functions as a list of tools, as JSON.

    For OpenAI's Chat Completions, unless --as names another kind.
    """

    async def question(source: Source) -> list[dict[str, Any]]:
        return await source.tools(kind, split_tags(tags), query, most)

    where = Where.given(folder, config, url, token, path, bus=BusPlace.given(bus, domain, bus_interface))
    print_json(ask(where, question, f"loading {where.name}"))

"""``enginehost call``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, redirect_stdout
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

from enginehost.cli.arguments import Given, read_arguments, without_bare_json
from enginehost.cli.options import BusInterface, Config, Domain, FolderOrUrl, Name, OnBus, Token, Url
from enginehost.cli.output import print_encoded, waiting
from enginehost.cli.prints import prints_shown
from enginehost.cli.source import BusPlace, Source, Where

app = typer.Typer()


class _Call(TyperCommand):
    """``--json`` may be followed by the arguments or stand alone, which typer has no way to say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take out the ``--json`` that stands alone: whoever prints has seen it already."""
        return super().parse_args(ctx, without_bare_json(args))


@app.command(cls=_Call)
def call(
    name: Name,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="name=text, name:=JSON, name=@file (text of a file), name:=@file (JSON of a file), or - "
            "for a JSON object on standard input.",
            show_default=False,
        ),
    ] = None,
    document: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="[OBJECT]",
            help="Print errors as JSON too; an object that follows gives the arguments: --json '{\"a\": 1}'.",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print the items as they come, one a line.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print text without quotes.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds to wait at most.", show_default=False)
    ] = None,
    folder: FolderOrUrl = None,
    url: Url = None,
    token: Token = None,
    config: Config = None,
    bus: OnBus = False,
    domain: Domain = None,
    bus_interface: BusInterface = None,
) -> None:
    """Call a function and print its result as JSON.

    Text becomes a number, a boolean, a list or an object where the function asks for one.
    """
    where = Where.given(folder, config, url, token, bus=BusPlace.given(bus, domain, bus_interface))
    given = read_arguments(arguments or [], document, where.most_bytes)
    if stream:
        asyncio.run(_print_items(where, name, given, timeout, raw))
        return
    with waiting(f"calling {name}") as over, prints_shown(over):
        result = asyncio.run(_result(where, name, given, timeout))
    print_encoded(result, raw=raw)


async def _result(where: Where, name: str, given: Given, timeout: float | None) -> bytes:
    async with where.open() as source:
        return await source.call(name, await _fitted(source, name, given), timeout)


async def _print_items(where: Where, name: str, given: Given, timeout: float | None, raw: bool) -> None:
    output = sys.stdout
    with waiting(f"calling {name}") as over, prints_shown(over):
        async with where.open() as source:
            arguments = await _fitted(source, name, given)
            items = cast("AsyncGenerator[bytes, None]", source.stream(name, arguments, timeout))
            async with aclosing(items):
                async for item in items:
                    over()
                    with redirect_stdout(output):
                        print_encoded(item, raw=raw, pretty=False)


async def _fitted(source: Source, name: str, given: Given) -> dict[str, Any]:
    if not given.texts:
        return given.exact
    return given.fitted((await source.describe(name))["parameters"])

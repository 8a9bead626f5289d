"""``enginehost call``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, cast

import typer

from enginehost.cli.arguments import Given, read_arguments
from enginehost.cli.failures import REPORTING
from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Name, Token, Url
from enginehost.cli.output import print_encoded, waiting
from enginehost.cli.source import Source, Where

app = typer.Typer()


@app.command()
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
            metavar="OBJECT",
            help="The arguments as a JSON object; errors are JSON too.",
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
    folder: Folder = DEFAULT_FOLDER,
    url: Url = None,
    token: Token = None,
    config: Config = None,
) -> None:
    """Call a function and print its result as JSON.

    Text becomes a number, a boolean, a list or an object where the function asks for one.
    """
    REPORTING.json = document is not None
    given = read_arguments(arguments or [], document)
    where = Where(folder, config, url, token)
    if stream:
        asyncio.run(_print_items(where, name, given, timeout, raw))
        return
    with waiting(f"calling {name}"):
        result = asyncio.run(_result(where, name, given, timeout))
    print_encoded(result, raw=raw)


async def _result(where: Where, name: str, given: Given, timeout: float | None) -> bytes:
    async with where.open() as source:
        return await source.call(name, await _fitted(source, name, given), timeout)


async def _print_items(where: Where, name: str, given: Given, timeout: float | None, raw: bool) -> None:
    async with where.open() as source:
        arguments = await _fitted(source, name, given)
        items = cast("AsyncGenerator[bytes, None]", source.stream(name, arguments, timeout))
        async with aclosing(items):
            async for item in items:
                print_encoded(item, raw=raw, pretty=False)


async def _fitted(source: Source, name: str, given: Given) -> dict[str, Any]:
    if not given.texts:
        return given.exact
    return given.fitted((await source.describe(name))["parameters"])

"""``enginehost policy``."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json, Name
from enginehost.cli.output import print_json, printable, say, waiting
from enginehost.cli.source import require_folder

if TYPE_CHECKING:
    from enginehost.caller import Caller
    from enginehost.policy import Explanation

app = typer.Typer(no_args_is_help=True)


@app.callback()
def policy() -> None:
    """Explain who may view and call what."""


@app.command()
def explain(
    caller: Annotated[str, typer.Argument(help="The caller's subject, or `anonymous`.")],
    name: Name,
    scopes: Annotated[
        str, typer.Option(help="The caller's scopes (comma-separated).", show_default=False)
    ] = "",
    tenant: Annotated[str, typer.Option(help="The caller's tenant.", show_default=False)] = "",
    face: Annotated[str, typer.Option(help="The way in.")] = "http",
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say whether a caller may view and call a function, and which rule decides."""
    require_folder(folder)
    from enginehost.caller import Caller, anonymous

    granted = frozenset(scope.strip() for scope in scopes.split(",") if scope.strip())
    who = anonymous(face) if caller == "anonymous" else Caller(caller, tenant, granted, face)
    with waiting(f"loading {folder}"):
        found = asyncio.run(_explanation(folder, config, who, name))
    if json:
        print_json(asdict(found))
    else:
        say(printable(str(found)))


async def _explanation(folder: Path, config: Path | None, caller: Caller, name: str) -> Explanation:
    from enginehost.cli.local import FolderSource

    async with FolderSource(folder, config) as source:
        return source.host.policy.explain(caller, source.host.entry(name).signature)

"""The options that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginehost.cli.complete import function_names

DEFAULT_FOLDER = Path("smss")


Json = Annotated[bool, typer.Option("--json", help="Print JSON; errors too.")]
Folder = Annotated[Path, typer.Option("--folder", "-f", help="The folder with the smss files.")]
FolderOrUrl = Annotated[
    Path | None,
    typer.Option(
        "--folder", "-f", help="The folder with the smss files (smss); not with --url.", show_default=False
    ),
]
FolderArgument = Annotated[
    Path | None, typer.Argument(help="The folder (same as --folder).", show_default=False)
]
Config = Annotated[
    Path | None,
    typer.Option(help="The settings, in place of the enginehost.yaml that is found.", show_default=False),
]
Url = Annotated[
    str | None,
    typer.Option(
        help="A running host, such as http://127.0.0.1:8484, in place of a folder.", show_default=False
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="ENGINEHOST_TOKEN",
        help="The bearer token for --url. Others can see it on the command line, not in the variable.",
        show_default=False,
    ),
]
OnBus = Annotated[
    bool,
    typer.Option("--bus", help="What is on the databus, in place of a folder; needs no host here."),
]
Domain = Annotated[
    int | None, typer.Option(min=0, max=232, help="With --bus: the DDS domain (0).", show_default=False)
]
BusInterface = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="With --bus: the network interface (lo).", show_default=False),
]
Tags = Annotated[
    str, typer.Option(help="Only functions with one of these tags (comma-separated).", show_default=False)
]
Kind = typer.Option(
    "--as",
    metavar="KIND",
    help="The kind: json-schema, openai, openai-strict, openai-responses, bedrock, anthropic, gemini, mcp, "
    "genesis, or one of a plugin.",
    show_default=False,
)
Name = Annotated[str, typer.Argument(help="The function's name.", autocompletion=function_names)]


def split_tags(text: str) -> list[str]:
    """The tags of :data:`Tags`."""
    return [tag.strip() for tag in text.split(",") if tag.strip()]

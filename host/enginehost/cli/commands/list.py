"""``enginehost list``."""

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
    OnBus,
    Tags,
    Token,
    Url,
    split_tags,
)
from enginehost.cli.output import escaped, note, print_json, print_table, printable, say
from enginehost.cli.source import BusPlace, Source, Where, ask
from enginehost.known_classes import other_catalog_type

app = typer.Typer()

_MOST_NOTES = 10


@app.command("list")
def list_functions(
    path: FolderArgument = None,
    folder: FolderOrUrl = None,
    tags: Tags = "",
    url: Url = None,
    token: Token = None,
    config: Config = None,
    bus: OnBus = False,
    domain: Domain = None,
    bus_interface: BusInterface = None,
    models: Annotated[bool, typer.Option("--models", help="List the models instead.")] = False,
    json: Json = False,
) -> None:
    """List the functions, or the models."""

    async def question(source: Source) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return await source.functions(split_tags(tags)), await source.engines()

    where = Where.given(folder, config, url, token, path, bus=BusPlace.given(bus, domain, bus_interface))
    functions, engines = ask(where, question, f"loading {where.name}")
    if models:
        _show_models([engine for engine in engines if engine.get("serves") == "model"], where, json=json)
        return
    if json:
        print_json(functions)
        return
    if functions:
        rows = [[f["name"], f["state"], ",".join(f["tags"]), f["description"]] for f in functions]
        print_table(("NAME", "STATE", "TAGS", "DESCRIPTION"), rows)
    else:
        say("no functions")
    _tell_of_idle([engine for engine in engines if _is_worth_a_note(engine)], where)


def _show_models(models: list[dict[str, Any]], where: Where, *, json: bool) -> None:
    if json:
        print_json(models)
        return
    if models:
        rows = [[m["display_name"] or m["id"], m["state"], m["kind"], m.get("model", "")] for m in models]
        print_table(("NAME", "STATE", "KIND", "MODEL"), rows)
    else:
        say("no models")
    _tell_of_idle([one for one in models if _is_worth_a_note(one)], where)


def _is_worth_a_note(engine: dict[str, Any]) -> bool:
    """Whether somebody may miss its functions: not those of a SEMOSS database, model or the like."""
    if engine["state"] == "unsupported":
        return other_catalog_type(engine["kind"]) is None
    return bool(engine["reason"]) or engine["state"] in ("failed", "stale", "loading", "conflict")


def _tell_of_idle(engines: list[dict[str, Any]], where: Where) -> None:
    for engine in engines[:_MOST_NOTES]:
        reason = f": {printable(engine['reason'])}" if engine["reason"] else ""
        note(f"{engine['state']}: {escaped(engine.get('path') or engine['id'])}{reason}")
    if len(engines) > _MOST_NOTES:
        note(f"and {len(engines) - _MOST_NOTES} more")
    if any(engine["state"] != "ready" for engine in engines):
        note(f"`{where.doctor}` says how to mend it")

"""``enginehost plugins``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import typer

from enginehost.cli.options import Json
from enginehost.cli.output import emphasised, note, print_json, print_table, printable
from enginehost.contributions import collect
from enginehost.entrypoints import GROUPS, HOOKS, Alias
from enginehost.errors import ConfigError
from enginehost.plugins import PluginRegistry

app = typer.Typer()

_PROVIDES = {
    "enginehost.engines": "engine",
    "enginehost.models": "model",
    "enginehost.commands": "command",
    "enginehost.importers": "importer",
    HOOKS: "hooks",
}


@app.command()
def plugins(json: Json = False) -> None:
    """List the plugins and the kinds of engine they provide.

    Each is loaded, so that one that is broken shows.
    """
    registry = PluginRegistry()
    collect(registry)
    rows = [_row(registry, alias) for alias in registry.aliases(*GROUPS)]
    if json:
        print_json(
            {
                "plugins": rows,
                "problems": [_problem(problem) for problem in registry.problems],
            }
        )
        return
    rows.sort(key=lambda row: (row["distribution"], row["provides"], row["name"]))
    heads = ("NAME", "PROVIDES", "FROM", "STATE")
    print_table(
        heads, [(r["name"], r["provides"], f"{r['distribution']} {r['version']}", r["state"]) for r in rows]
    )
    _tell(map(str, registry.problems))


def _row(registry: PluginRegistry, alias: Alias) -> dict[str, Any]:
    row = {
        "name": alias.name,
        "provides": _PROVIDES[alias.group],
        "value": alias.value,
        "distribution": alias.distribution,
        "version": alias.version,
        "state": "ok",
    }
    try:
        if _PROVIDES[alias.group] in ("engine", "model"):
            registry.engine_class(alias.name)
        else:
            registry.load(alias)
    except ConfigError:
        row["state"] = "broken"
    return row


def _problem(problem: Any) -> dict[str, str]:
    return {
        "distribution": problem.distribution,
        "entry_point": problem.entry_point,
        "message": problem.message,
        "hint": problem.hint,
    }


def _tell(problems: Iterable[str]) -> None:
    for problem in problems:
        note(f"{emphasised('problem:', sys.stderr, 'yellow')} {printable(problem)}")

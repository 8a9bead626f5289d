"""``enginehost policy``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enginehost.cli.failures import CommandError
from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json, Name, split_tags
from enginehost.cli.output import laid_out, print_json, say, waiting
from enginehost.cli.source import require_folder

if TYPE_CHECKING:
    from enginehost.caller import Caller
    from enginehost.policy import Explanation, Policy
    from enginehost.policy_words import Owner

app = typer.Typer(no_args_is_help=True)


@app.callback()
def policy() -> None:
    """Explain who may view and call what."""


@app.command()
def explain(
    caller: Annotated[str, typer.Argument(help="The caller's subject, or `anonymous`.")],
    name: Name,
    scopes: Annotated[
        str | None,
        typer.Option(
            help="The caller's scopes (comma-separated); else those of its token or key.", show_default=False
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(help="The caller's tenant; else that of its token or key.", show_default=False),
    ] = None,
    face: Annotated[str, typer.Option(help="The way in: http, databus, python, or a plugin's.")] = "http",
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say whether a caller may view and call a function, and which rule decides.

    A caller with the name of a token in the settings has that token's scopes and tenant; with --face databus,
    one with the name of a trusted key has that key's.
    """
    require_folder(folder)
    from enginehost.caller import Caller, anonymous

    if caller == "anonymous":
        who = anonymous(face)
    else:
        known = _known(caller, face, folder, config)
        granted = known.scopes if scopes is None else frozenset(split_tags(scopes))
        who = Caller(caller, known.tenant if tenant is None else tenant, granted, face)
    with waiting(f"loading {folder}"):
        found = asyncio.run(_explanation(folder, config, who, name))
    if json:
        print_json(asdict(found))
    else:
        say(laid_out(str(found)))


def _known(subject: str, face: str, folder: Path, config: Path | None) -> Caller:
    """What the settings say of the tokens of this name, or on the databus of the trusted keys."""
    from enginehost.caller import Caller
    from enginehost.databus.config import trust_file
    from enginehost.databus.trust import read_trust
    from enginehost.settings import load_settings

    settings = load_settings(folder, config=config)
    owners: Sequence[Owner] = settings.tokens if face != "databus" else read_trust(trust_file(settings)).keys
    found = [owner for owner in owners if owner.name == subject]
    scopes = frozenset(scope for owner in found for scope in owner.scopes)
    return Caller(subject, next((owner.tenant for owner in found if owner.tenant), ""), scopes)


async def _explanation(folder: Path, config: Path | None, caller: Caller, name: str) -> Explanation:
    from enginehost.cli.local import FolderSource

    async with FolderSource(folder, config) as source:
        _require_face(caller.face, source.host.policy)
        return source.host.policy.explain(caller, source.host.entry(name).signature)


def _require_face(face: str, policy: Policy) -> None:
    """Raise :class:`CommandError` unless the host, a plugin or the policy itself knows such a face."""
    from enginehost.contributions import collect
    from enginehost.plugins import PluginRegistry
    from enginehost.policy import matcher
    from enginehost.policy_words import FACES, what_is_meant

    if face in FACES or any(matcher(*rule.faces)(face) for rule in policy.written.rules if rule.faces):
        return
    known = FACES.union(collect(PluginRegistry()).faces)
    if face not in known:
        raise CommandError(f"--face: there is no face {face!r}", hint=what_is_meant(face, known))

"""``enginehost token``."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import typer

from enginehost.cli.failures import CommandError
from enginehost.cli.options import Json
from enginehost.cli.output import note, print_json, say
from enginehost.errors import ConfigError

app = typer.Typer()


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="Who shows it: the subject in the policy and the log.")],
    scopes: Annotated[str, typer.Option(help="What it grants (comma-separated).", show_default=False)] = "",
    tenant: Annotated[str, typer.Option(help="The customer it belongs to.", show_default=False)] = "",
    json: Json = False,
) -> None:
    """Make a bearer token and the settings that accept it.

    The token is printed once and kept nowhere: the settings hold its SHA-256 only.
    """
    from enginehost.auth_settings import TokenSettings, token_digest
    from enginehost.checked_model import checked
    from enginehost.yaml_document import Place

    text = f"eh_{secrets.token_urlsafe(32)}"
    entry: dict[str, Any] = {"name": name, "token_sha256": token_digest(text).hex()}
    if scopes:
        entry["scopes"] = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    if tenant:
        entry["tenant"] = tenant
    try:
        checked(TokenSettings, entry, lambda _: Place(""))
    except ConfigError as error:
        raise CommandError(error.message, hint=error.hint) from error
    if json:
        print_json({"token": text, "settings": {"tokens": [entry]}})
        return
    say(text)
    note("\nGive it to the caller: it is not shown again. In enginehost.yaml:\n")
    note(_yaml(entry))


def _yaml(entry: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump({"tokens": [entry]}, sort_keys=False, allow_unicode=True).rstrip()

"""``enginehost databus trust``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enginehost.cli.failures import CommandError
from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json, split_tags
from enginehost.cli.output import escaped, print_json, print_table, say
from enginehost.errors import ConfigError

if TYPE_CHECKING:
    from enginehost.databus.trust import KeyEntry


def trust(
    key: Annotated[
        str | None,
        typer.Argument(
            help="The public key that `enginehost databus keygen` printed there.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Whose it is: the subject in the policy and the log.", show_default=False)
    ] = "",
    scopes: Annotated[str, typer.Option(help="What it grants (comma-separated).", show_default=False)] = "",
    tenant: Annotated[str, typer.Option(help="The customer its owner belongs to.", show_default=False)] = "",
    services: Annotated[
        str | None,
        typer.Option(
            help="Patterns (comma-separated): the services whose functions it may offer; any, if left out.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the trusted keys.")] = False,
    remove: Annotated[
        str | None, typer.Option(help="Trust the key with this name, or id, no more.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="The trust file; else where the setting databus.trust_file, or state_dir, says.",
            show_default=False,
        ),
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Trust what a key signs on the databus.

    Requests that it signs are those of the caller NAME, and functions of its host may enter the catalog. A
    running host takes that up within a second, and so it does what --remove takes back.
    """
    if (key is not None) + list_ + (remove is not None) != 1:
        raise CommandError(
            "nothing to do, or too much", hint="give a KEY with --name, or --list, or --remove"
        )
    path = file or _kept(folder, config)
    if list_:
        _list(path, json=json)
    elif remove is not None:
        _remove(path, remove, json=json)
    else:
        given: dict[str, Any] = {"name": name, "scopes": tuple(split_tags(scopes)), "tenant": tenant}
        if services is not None:
            given["services"] = tuple(split_tags(services))
        _add(path, given | {"key": key or ""}, json=json)


def _kept(folder: Path, config: Path | None) -> Path:
    from enginehost.databus.config import trust_file
    from enginehost.settings import load_settings

    return trust_file(load_settings(folder, config=config))


def _add(path: Path, given: dict[str, Any], *, json: bool) -> None:
    from enginehost.checked_model import checked
    from enginehost.databus.trust import KeyEntry, trust_key
    from enginehost.yaml_document import Place

    if not given["name"]:
        raise CommandError("whose key is this?", hint="--name NAME: the subject in the policy and the log")
    try:
        entry = checked(KeyEntry, given, lambda _: Place(""))
    except ConfigError as error:
        raise CommandError(error.message, hint=error.hint) from error
    new = trust_key(path, entry)
    if json:
        print_json(_as_json(entry) | {"new": new, "file": str(path)})
        return
    say(f"{'trusted' if new else 'trusted already, now'}: {_in_words(entry)}")


def _remove(path: Path, name: str, *, json: bool) -> None:
    from enginehost.databus.trust import distrust, read_trust

    gone = distrust(path, name)
    if gone is None:
        names = ", ".join(entry.name for entry in read_trust(path).keys) or "none"
        raise CommandError(f"no trusted key has the name or the id {name!r}", hint=f"there are {names}")
    if json:
        print_json(_as_json(gone) | {"file": str(path)})
        return
    say(f"trusted no more: {_in_words(gone)}")


def _list(path: Path, *, json: bool) -> None:
    from enginehost.databus.trust import read_trust

    entries = read_trust(path).keys
    if json:
        print_json({"keys": [_as_json(entry) for entry in entries], "file": str(path)})
        return
    rows = [(one.name, one.id, ",".join(one.scopes), one.tenant, one.key) for one in entries]
    print_table(("NAME", "ID", "SCOPES", "TENANT", "KEY"), rows)


def _as_json(entry: KeyEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "id": entry.id,
        "key": entry.key,
        "scopes": list(entry.scopes),
        "tenant": entry.tenant,
        "services": None if entry.services is None else list(entry.services),
    }


def _in_words(entry: KeyEntry) -> str:
    rights = f", scopes {', '.join(entry.scopes)}" if entry.scopes else ""
    tenant = f", tenant {entry.tenant}" if entry.tenant else ""
    services = "" if entry.services is None else f", offers {', '.join(entry.services) or 'nothing'}"
    return escaped(f"{entry.name} ({entry.id}){rights}{tenant}{services}")

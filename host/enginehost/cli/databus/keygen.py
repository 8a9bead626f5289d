"""``enginehost databus keygen``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enginehost.cli.failures import CommandError
from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json
from enginehost.cli.output import escaped, note, print_json, say

if TYPE_CHECKING:
    from enginehost.databus.keys import SigningKey


def keygen(
    force: Annotated[
        bool, typer.Option("--force", help="Put the new key in the place of one that is there.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the key is kept; else where the setting databus.key_file, or state_dir, says.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the public key of the key that is there; make none.")
    ] = False,
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Make the key with which this host signs on the databus.

    Printed is the public key, for `enginehost databus trust` on other machines. The private one stays in a
    file that its owner alone can read.
    """
    from enginehost.databus.keys import load_key, new_key, write_key

    if show and force:
        raise CommandError("--show makes no key, --force makes a new one", hint="give one of the two")
    path = out or _kept(folder, config)
    key = load_key(path) if show else new_key()
    if not show:
        write_key(path, key, force=force)
    _tell(key, path, json=json)


def _kept(folder: Path, config: Path | None) -> Path:
    from enginehost.databus.config import key_file
    from enginehost.settings import load_settings

    return key_file(load_settings(folder, config=config))


def _tell(key: SigningKey, path: Path, *, json: bool) -> None:
    from enginehost.databus.keys import written

    public = written(key.public)
    if json:
        print_json({"public_key": public, "id": key.id, "file": str(path)})
        return
    say(public)
    note(f"Its id is {key.id}; the private key is in {escaped(str(path))}.")
    note("On each machine that is to trust this host:")
    note(f"  enginehost databus trust {public} --name NAME")

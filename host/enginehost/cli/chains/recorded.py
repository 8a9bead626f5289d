"""The recorded chains, as the settings say where they are."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from enginehost.cli.failures import CommandError
from enginehost.monitoring import database
from enginehost.monitoring.database import Recorded
from enginehost.monitoring.seen import Seen
from enginehost.store.link import Link

LEAST = 4
"""Characters that an abbreviated id has."""


@contextmanager
def recorded(folder: Path, config: Path | None) -> Generator[Link]:
    """A connection to the database of that folder's host. Raises ``ConfigError``."""
    from enginehost.settings import load_settings
    from enginehost.store.connecting import database_of
    from enginehost.store.place import database_url, parse_place

    settings = load_settings(folder, config=config)
    url = database_url(settings.store.url, settings.state_dir)
    file = parse_place(url).file
    if file is not None and not file.exists():
        hint = "set record_chains: on (or values) in enginehost.yaml, and start the host"
        raise CommandError("no chain has been recorded here", hint=hint)
    made = database_of(url, synchronous="normal", lock_timeout=settings.store.lock_timeout)
    made.upgrade()
    link = made.writer()
    try:
        yield link
    finally:
        link.close()


def chosen(link: Link, text: str) -> tuple[Recorded, dict[str, Seen]]:
    """The chain that an id, or the beginning of one, means. Raises :class:`CommandError`."""
    text = text.lower()
    if not re.fullmatch(rf"[0-9a-f]{{{LEAST},32}}", text):
        hint = "`enginehost chains` lists the latest"
        raise CommandError(f"{text[:60]!r} is no id of a chain: {LEAST} to 32 hexadecimal digits", hint=hint)
    found = database.beginning_with(link, text)
    head = database.head_of(link, found[0]) if found else None
    if head is None:
        hint = "`enginehost chains` lists the latest; chains are kept for chain_days"
        raise CommandError(f"no chain is recorded whose id begins with {text}", hint=hint)
    if len(found) > 1:
        raise CommandError(f"several chains begin with {text}", hint="give more of the id")
    return head, database.steps_of(link, found[0])

"""Which database is meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from enginehost.database_place import DATABASE_HINT, Place, read_place
from enginehost.errors import ConfigError

FILE = "sessions.db"
VARIABLE = "DATABASE_URL"


def given_url(setting: str | None, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The URL that is given, and what gives it: the setting ``store.url``, else ``$DATABASE_URL``."""
    if setting:
        return setting, "store.url"
    found = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    return (found, VARIABLE) if found else ("", "")


def database_url(setting: str | None, state_dir: Path, environ: Mapping[str, str] | None = None) -> str:
    """The URL that is given, else that of a SQLite file in the state folder."""
    return given_url(setting, environ)[0] or f"sqlite:///{state_dir.absolute() / FILE}"


def parse_place(url: str) -> Place:
    """The database that a URL means. Raises :class:`ConfigError`; its text does not hold the URL."""
    try:
        return read_place(url)
    except ValueError as error:
        hint = f"{DATABASE_HINT}; ${VARIABLE} counts where the setting is not given"
        raise ConfigError(f"store.url: {error}", hint=hint, reason="store-url") from None

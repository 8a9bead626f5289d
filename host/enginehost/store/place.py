"""Which database is meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from enginehost.errors import ConfigError

FILE = "sessions.db"
VARIABLE = "DATABASE_URL"
_HINT = "write sqlite:///FILE, or postgresql://USER@HOST/NAME"
_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")


@dataclass(frozen=True, slots=True)
class Place:
    """A SQLite file, or the address of a PostgreSQL database (which may hold a password: never shown)."""

    file: Path | None = None
    postgres: str = ""


def database_url(setting: str | None, state_dir: Path, environ: Mapping[str, str] | None = None) -> str:
    """The setting ``store.url``, else ``$DATABASE_URL``, else a SQLite file in the state folder."""
    given = setting or (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    return given or f"sqlite:///{state_dir.absolute() / FILE}"


def parse_place(url: str) -> Place:
    """The database that a URL means. Raises :class:`ConfigError`; its text does not hold the URL."""
    scheme, separator, rest = url.partition(":")
    if separator and scheme in _POSTGRES:
        _checked(url)
        return Place(postgres=f"postgresql:{rest}")
    if not url.startswith("sqlite:///"):
        raise ConfigError("store.url: not a database that sessions can be in", hint=_HINT, reason="store-url")
    name = unquote(url.removeprefix("sqlite:///").partition("?")[0])
    if not name or name == ":memory:":
        raise ConfigError("store.url: SQLite needs a file", hint=_HINT, reason="store-url")
    return Place(file=Path(name).expanduser())


def _checked(url: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise ConfigError("store.url: this URL is malformed", hint=_HINT, reason="store-url") from None

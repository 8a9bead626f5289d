"""Which database a URL means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

DATABASE_HINT = "write sqlite:///FILE, or postgresql://USER@HOST/NAME"
_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")
_BARE_PERCENT = re.compile("%(?![0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class Place:
    """A SQLite file, or the address of a PostgreSQL database (which may hold a password: never shown)."""

    file: Path | None = None
    postgres: str = ""


def read_place(url: str) -> Place:
    """The database that a URL means. Raises :class:`ValueError`; its text does not hold the URL."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("sqlite", *_POSTGRES):
        raise ValueError("not a database that sessions can be in")
    if not url.isprintable():
        raise ValueError("a URL holds no control characters")
    if scheme == "sqlite":
        return Place(file=_file(rest))
    _check_postgres(url)
    return Place(postgres=f"postgresql://{rest}")


def _file(rest: str) -> Path:
    name = unquote(rest.partition("?")[0])
    if not name.startswith("/"):
        raise ValueError("a SQLite file stands after three slashes")
    name = name[1:]
    if not name or name == ":memory:" or name.endswith("/") or "\0" in name:
        raise ValueError("SQLite needs a file")
    return Path(name).expanduser()


def _check_postgres(url: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise ValueError(
            "this URL is malformed (is a / or @ in the password written as %2F or %40?)"
        ) from None
    if _BARE_PERCENT.search(url):
        raise ValueError("this URL is malformed: a % in it is written as %25")
    if " " in url:
        raise ValueError("this URL is malformed: a space in it is written as %20")

"""The way to the database that a URL names."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from enginehost.errors import ConfigError
from enginehost.store.link import Database
from enginehost.store.place import parse_place

if TYPE_CHECKING:
    from enginehost.store.postgres import Postgres

_log = logging.getLogger("enginehost.store")


def database_of(url: str, *, synchronous: str, lock_timeout: float) -> Database:
    """The database, not connected yet. Raises :class:`ConfigError`; its driver is loaded here."""
    place = parse_place(url)
    if place.file is not None:
        from enginehost.store.sqlite import Sqlite

        return Sqlite(place.file, synchronous=synchronous, lock_timeout=lock_timeout)
    try:
        from enginehost.store.postgres import Postgres
    except ImportError:
        hint = "pip install 'enginehost[postgres]'"
        raise ConfigError("store.url: PostgreSQL needs psycopg", hint=hint, reason="store") from None
    return Postgres(place.postgres, synchronous=synchronous, lock_timeout=lock_timeout)


def listen(database: Database, told: Callable[[str | None], None], ended: Callable[[], bool]) -> None:
    """Listen, on a connection of its own, again and again where it is lost."""
    while not ended():
        try:
            cast("Postgres", database).listen(told, ended)
        except Exception as error:  # noqa: BLE001 - the server may be back in a moment
            _log.debug("listening for other processes: %s", type(error).__name__)
            time.sleep(0.2)

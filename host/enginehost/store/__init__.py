"""Messages, runs and events in a database: SQLite beside the host, or PostgreSQL for many hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginehost.settings import HostSettings
    from enginehost.store.port import Store


def look_at_store(settings: HostSettings) -> str:
    """What database a host's settings name, in words; nothing in it is changed.

    Raises ``ConfigError`` where sessions could not be in it.
    """
    from enginehost.store.connecting import database_of
    from enginehost.store.place import database_url

    store = settings.store
    url = database_url(store.url, settings.state_dir)
    return database_of(url, synchronous=store.synchronous, lock_timeout=store.lock_timeout).look()


def make_store(settings: HostSettings) -> Store:
    """The store that a host's settings name, not opened yet. Raises ``ConfigError``."""
    from enginehost.store.place import database_url
    from enginehost.store.sql import SqlStore

    store = settings.store
    return SqlStore(
        database_url(store.url, settings.state_dir),
        synchronous=store.synchronous,
        readers=store.readers,
        lock_timeout=store.lock_timeout,
        retention=store.retention,
    )

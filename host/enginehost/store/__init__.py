"""Messages, runs and events in a database: SQLite beside the host, or PostgreSQL for many hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginehost.settings import HostSettings
    from enginehost.store.port import Store


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

"""The version of the schema in a database, and the way to ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from enginehost.errors import ConfigError
from enginehost.store.link import Link

VERSIONS = ("s0001", "s0002", "s0003", "s0004")
"""The steps of the schema that this program knows, oldest first; the last is ours."""


def current_version(link: Link, catalog: str, column: str) -> str | None:
    """The version that a database has; ``None`` for one without our tables."""
    if link.one(f"SELECT 1 FROM {catalog} WHERE {column} = 'alembic_version'") is None:  # noqa: S608 - ours
        return None
    row = link.one("SELECT version_num FROM alembic_version")
    return str(row[0]) if row else None


def check_version(found: str | None) -> bool:
    """Whether that is ours. Raises :class:`ConfigError` for one that this program does not know."""
    if found is not None and found not in VERSIONS:
        raise ConfigError(
            f"the database has schema {found}, and this version of enginehost knows up to {VERSIONS[-1]}",
            hint="update enginehost, or use another database",
            reason="store-version",
        )
    return found == VERSIONS[-1]


def upgrade(
    url: str, lock: Sequence[str], *, timeout: float | None = None, connect: Callable[[], Any] | None = None
) -> None:
    """Run the missing steps in one transaction that begins with ``lock``."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    arguments = {"creator": connect} if connect else {"connect_args": {"timeout": timeout}}
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool, **arguments)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    with engine.connect() as connection:
        for statement in lock:
            connection.exec_driver_sql(statement)
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
    engine.dispose()

"""Messages, their parts, events, runs, leases, push configurations, audit; views of sessions and contents."""

from __future__ import annotations

from alembic import op

from enginehost.store.tables import metadata, views

revision = "s0001"
down_revision = None


def upgrade() -> None:
    """Make all tables and views."""
    connection = op.get_bind()
    metadata.create_all(connection, checkfirst=False)
    for statement in views(connection.dialect.name):
        op.execute(statement)

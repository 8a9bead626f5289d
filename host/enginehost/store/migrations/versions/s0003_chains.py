"""Recorded chains and their steps."""

from __future__ import annotations

from alembic import op

from enginehost.store.chain_tables import chain_metadata

revision = "s0003"
down_revision = "s0002"


def upgrade() -> None:
    """Make the tables."""
    chain_metadata.create_all(op.get_bind(), checkfirst=False)

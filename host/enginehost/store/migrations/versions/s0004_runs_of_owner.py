"""Turns of an owner in all sessions, latest changed first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "s0004"
down_revision = "s0003"

_NAME = "runs_of_owner"


def upgrade() -> None:
    """Make the index, unless the tables are new and have it."""
    indexes = sa.inspect(op.get_bind()).get_indexes("runs")
    if all(index["name"] != _NAME for index in indexes):
        op.create_index(_NAME, "runs", ["created_by", "tenant", "agent", "modified_at", "id"])

"""Where the text of a plain row stands in its body. Rows that were there before have none, and need none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "s0002"
down_revision = "s0001"


def upgrade() -> None:
    """Add the column, unless the tables are new and have it."""
    columns = sa.inspect(op.get_bind()).get_columns("messages")
    if all(column["name"] != "text_at" for column in columns):
        op.add_column("messages", sa.Column("text_at", sa.Integer))

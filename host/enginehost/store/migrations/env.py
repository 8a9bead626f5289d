"""What alembic runs: the steps, on the connection that holds the lock."""

from __future__ import annotations

from alembic import context

# the connection is in a transaction already: all steps are there, or none
context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()

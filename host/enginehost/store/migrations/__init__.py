"""The steps of the schema, run by alembic when a store is opened."""

"""How PostgreSQL carries out what the writer asks."""

from __future__ import annotations

from enginehost.store.postgres import Postgres
from enginehost.store.sql import SqlStore


async def test_the_writer_uses_indexes_also_while_the_tables_are_small(postgres: str) -> None:
    store = SqlStore(postgres)
    await store.open()
    await store.close()
    database = Postgres(postgres, synchronous="full", lock_timeout=5.0)
    link = database.writer()
    try:
        for asked in (
            f"SELECT id FROM messages WHERE {database.among('id', 'some')} AND status = 'open'",
            f"SELECT id FROM runs WHERE {database.among('id', 'some')}",
            f"SELECT number FROM parts WHERE {database.among('message', 'some')}",
        ):
            plan = link.all(f"EXPLAIN {asked}", {"some": ["a", "b"]})
            assert "Seq Scan" not in str(plan)
        assert link.one("SHOW plan_cache_mode") == ("force_generic_plan",)
    finally:
        link.close()
    reader = database.reader()
    try:
        assert reader.one("SHOW plan_cache_mode") == ("auto",)
    finally:
        reader.close()

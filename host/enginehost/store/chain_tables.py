"""The tables of recorded chains, beside those of sessions."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, MetaData, Table, Text

chain_metadata = MetaData()


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


chains = Table(
    "chains",
    chain_metadata,
    Column("chain", Text, primary_key=True),
    _text("root"),
    _text("root_call"),
    Column("rooted", Integer, nullable=False, comment="whether the root has no parent: 0 or 1"),
    _text("outcome"),
    Column("failed", Integer, nullable=False, comment="whether any step has failed: 0 or 1"),
    Column("started", Float, nullable=False),
    Column("modified", Float, nullable=False),
    Index("chains_latest", "started"),
    Index("chains_modified", "modified"),
    Index("chains_of_root", "root", "started"),
)

chain_events = Table(
    "chain_events",
    chain_metadata,
    Column("chain", Text, primary_key=True),
    Column("call", Text, primary_key=True),
    *(
        _text(name)
        for name in (
            "parent", "kind", "name", "host", "source", "agent", "outcome", "version", "start",
            "function_id", "about", "given", "gave",
        )
    ),
    *(Column(name, Float, nullable=False) for name in ("started", "ended", "seconds")),
)  # fmt: skip

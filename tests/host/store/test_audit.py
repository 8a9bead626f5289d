"""Who decided, cancelled or deleted what stands in the table ``audit``, also when the session is gone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from enginehost.llm.message import Message, Role, Type, user
from enginehost.store.port import Owner
from enginehost.store.sql import SqlStore

from .conftest import call

Raw = Callable[..., list[tuple[Any, ...]]]
Open = Callable[..., Awaitable[SqlStore]]


async def test_decisions_cancellations_and_deletions_are_kept_with_who_made_them(
    store: SqlStore, owner: Owner, session: str, agent: str, raw: Raw
) -> None:
    await store.append(session, [user("go"), call("c1")], owner)
    about = {"id": "c1", "kind": "approval", "call": "c1"}
    await store.append(session, [Message(Role.SYSTEM, Type.APPROVAL, "May it?", about)], owner)
    decided = Message(Role.USER, Type.APPROVAL, query=about | {"decision": "reject"})
    await store.append(session, [decided], owner)
    run = await store.start_run(session, agent, owner)
    await store.cancel_run(run.id, owner)
    await store.delete(session, owner)
    rows = raw(
        f"SELECT what, created_by, tenant, detail FROM audit WHERE session = '{session}' ORDER BY at, id"
    )
    assert [row[0] for row in rows] == ["decision", "cancel", "delete"]
    assert {(row[1], row[2]) for row in rows} == {(owner.subject, owner.tenant)}
    assert json.loads(rows[0][3]) == {"id": "c1", "kind": "approval", "decision": "reject"}
    assert json.loads(rows[1][3]) == {"run": run.id}

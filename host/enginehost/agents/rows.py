"""The rows that the runner writes: results, questions, decisions, notices."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Type

NOTICE = "notice"
"""``query["kind"]`` of a row that says why a turn stopped: for people, not for the model."""


class Decision(StrEnum):
    """What a person decides about a question."""

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    ANSWER = "answer"


class Question(StrEnum):
    """What a person is asked: ``query["kind"]`` of the row."""

    APPROVAL = "approval"
    """May this call run?"""
    OUTCOME = "outcome"
    """This call may have run when its process died: shall it run again?"""
    LIMIT = "limit"
    """The turn has reached a limit: may it go on as long again?"""


def result_query(call: Message, **more: Any) -> dict[str, Any]:
    """The ``query`` of a result of ``call``."""
    return {"tool": tool_of(call), "id": call.call_id, **more}


def tool_of(call: Message) -> str:
    """The name of the function that a call is of."""
    return str((call.query or {}).get("tool", ""))


def result(call: Message, content: str, **more: Any) -> Message:
    """A result that is whole; ``content`` is JSON text."""
    return Message(Role.TOOL, Type.TOOL_RESULT, content, query=result_query(call, **more))


def failure(call: Message, error: EngineHostError | str, code: str = "") -> Message:
    """A result that is an error, for the model to read."""
    return result(call, failure_text(error, code), error=True)


def failure_text(error: EngineHostError | str, code: str = "") -> str:
    """The content of a result that is an error."""
    body = error.to_json() if isinstance(error, EngineHostError) else {"code": code, "message": error}
    return orjson.dumps({"error": body}, default=str).decode()


def question(kind: Question, question_id: str, text: str, call: Message | None = None) -> Message:
    """A question to a person; ``query`` has the call as it would run."""
    asked: dict[str, Any] = {"id": question_id, "kind": str(kind)}
    if call is not None and call.query is not None:
        asked |= {"call": call.call_id, "tool": tool_of(call), "args": call.query.get("args", {})}
    return Message(Role.SYSTEM, Type.APPROVAL, text, query=asked)


def decision(
    asked: Message, decided: Decision, text: str = "", args: Mapping[str, Any] | None = None
) -> Message:
    """The decision about a question; the store takes one for each ``query["id"]``."""
    said = dict(asked.query or {}) | {"decision": str(decided)}
    if args is not None:
        said["args"] = dict(args)
    return Message(Role.USER, Type.APPROVAL, text, query=said)


def decision_of(row: Message) -> Decision:
    """What a row of :func:`decision` says."""
    return Decision(str((row.query or {})["decision"]))


def notice(reason: str) -> Message:
    """Why a turn stopped."""
    return Message(Role.SYSTEM, Type.TEXT, reason, query={"kind": NOTICE})

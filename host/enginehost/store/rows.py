"""Messages and runs as the JSON that stands in the database, and back.

A body that begins with a blank holds what orjson cannot keep (integers beyond 64 bits, lone surrogates): the
standard library writes and reads that one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Role, Status, Type, Usage
from enginehost.store.port import Owner, Run, RunState

INLINE = 1 << 16
"""Characters up to which a content stands in its row; a longer one is in parts of this size."""

MOST_PLAIN = 1 << 12
"""Characters of the body of a plain row: so that many of them at once are never much."""

_TALK = (Role.USER, Role.ASSISTANT)
_CONTENT = '"content":"'
_ROLES = {str(role): role for role in Role}
_TYPES = {str(kind): kind for kind in Type}
_STATUSES = {str(status): status for status in Status}


def dumps(value: Any) -> str:
    """JSON text; with a blank before it where only the standard library keeps the value."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        pass
    try:
        return " " + json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"a message has to be JSON: {error}") from None


def loads(text: bytes | str) -> Any:
    """The inverse of :func:`dumps`."""
    if text[:1] in (b" ", " "):
        return json.loads(text)
    return orjson.loads(text)


def escaped(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return dumps(text).lstrip(" ")[1:-1]


def unescaped(text: str) -> str:
    """The inverse of :func:`escaped`."""
    quoted = f'"{text}"'
    try:
        return orjson.loads(quoted)
    except orjson.JSONDecodeError:
        return json.loads(quoted)


def pieces(text: str) -> Iterator[str]:
    """A text in parts of at most :data:`INLINE` characters."""
    return (text[start : start + INLINE] for start in range(0, len(text), INLINE))


def body(message: Message, *, content: bool = True) -> dict[str, Any]:
    """The members of a message's body but for its sequence: those that say something."""
    found: dict[str, Any] = {
        "id": message.id,
        "role": message.role,
        "type": message.type,
        "created_at": message.created_at,
    }
    if message.modified_at != message.created_at:
        found["modified_at"] = message.modified_at
    if message.status is not Status.DONE:
        found["status"] = message.status
    if message.prev:
        found["prev"] = message.prev
    for name in ("query", "provider"):
        value: Mapping[str, Any] | None = getattr(message, name)
        if value is not None:
            found[name] = dict(value)
    if message.usage is not None:
        found["usage"] = usage_json(message.usage)
    if content and message.content:
        found["content"] = message.content
    return found


def numbered(text: str, sequence: int) -> str:
    """A body with its sequence, which only the transaction knows."""
    start = 2 if text[0] == " " else 1
    return f'{text[:start]}"sequence":{sequence},{text[start:]}'


def with_content(text: str, content: str) -> str:
    """A body with an (escaped) content."""
    blank = " " if "\\ud" in content and text[0] != " " else ""
    return f'{blank}{text[:-1]},"content":"{content}"}}' if content else text


def with_content_of(message: Message, content: str) -> Message:
    """The message with another content (``replace`` costs a third more, and this is for every token)."""
    return Message(
        message.role,
        message.type,
        content,
        message.query,
        message.provider,
        message.usage,
        message.status,
        message.id,
        message.session,
        message.sequence,
        message.prev,
        message.created_at,
        message.modified_at,
        message.created_by,
        message.tenant,
    )


def text_at(message: Message, content: str, text: str) -> int | None:
    """At which byte of its body the content of a plain row begins, counted from 1; ``None`` for any other.

    Plain is a text of a user or of the model that is whole, not blank and not long, in a body that orjson
    wrote: its JSON string is what a provider is sent, and nothing but the body's brace stands after it.
    """
    if message.type is not Type.TEXT or message.role not in _TALK or message.status is not Status.DONE:
        return None
    if len(text) > MOST_PLAIN or text[0] == " " or len(content) > MOST_PLAIN or not content.strip():
        return None
    at = text.rfind(_CONTENT) + len(_CONTENT)  # inside of the content, quotes are escaped
    return at if text.isascii() else len(text[:at].encode())


def usage_json(usage: Usage) -> dict[str, Any]:
    """What is known of a usage."""
    return {name: value for name, value in asdict(usage).items() if value not in (0, None, "")}


def usage_of(found: Mapping[str, Any] | None) -> Usage | None:
    """The inverse of :func:`usage_json`."""
    return None if found is None else Usage(**found)


def message_of(found: Mapping[str, Any], session: str, owner: Owner) -> Message:
    """A message from its body."""
    get = found.get
    created, usage = found["created_at"], get("usage")
    return Message(
        _ROLES[found["role"]],
        _TYPES[found["type"]],
        get("content", ""),
        get("query"),
        get("provider"),
        None if usage is None else Usage(**usage),
        _STATUSES[get("status", "done")],
        found["id"],
        session,
        found["sequence"],
        get("prev", ""),
        created,
        get("modified_at", created),
        owner.subject,
        owner.tenant,
    )


def said_once(session: str, message_id: str) -> str:
    """What stands for a message that its sender named: it is said once in a session."""
    return f"{session}\nsaid\n{message_id}"


def once(message: Message) -> str:
    """What there may be one of in a session: a call, its result, a decision, a named message; or none."""
    if message.role is Role.USER and message.query and (named := message.query.get("message_id")):
        return said_once(message.session, str(named))
    if message.type is Type.APPROVAL and not (message.query or {}).get("decision"):
        return ""
    if message.type not in (Type.TOOL_CALL, Type.TOOL_RESULT, Type.APPROVAL) or not message.call_id:
        return ""
    return "" if message.status is Status.FAILED else f"{message.session}\n{message.type}\n{message.call_id}"


RUN_COLUMNS = (
    "id, session, agent, state, holder, epoch, started_by, cancel, error, usage, task, context, data,"
    " created_at, modified_at"
)


def run_of(row: tuple[Any, ...]) -> Run:
    """A run from its columns."""
    name, session, agent, state, holder, epoch, started_by, cancel, error, usage, *others = row
    task, context, data, created_at, modified_at = others
    return Run(
        name,
        session,
        agent,
        RunState(state),
        holder,
        epoch,
        started_by,
        bool(cancel),
        loads(error) if error else None,
        usage_of(loads(usage)) if usage else None,
        task,
        context,
        loads(data),
        created_at,
        modified_at,
    )


def run_row(run: Run) -> dict[str, Any]:
    """A run as its columns."""
    return {
        "id": run.id,
        "session": run.session,
        "agent": run.agent,
        "state": str(run.state),
        "holder": run.holder,
        "epoch": run.epoch,
        "started_by": run.started_by,
        "cancel": run.cancel,
        "error": None if run.error is None else dumps(dict(run.error)),
        "usage": None if run.usage is None else dumps(usage_json(run.usage)),
        "task": run.task,
        "context": run.context,
        "data": dumps(dict(run.data)),
        "created_at": run.created_at,
        "modified_at": run.modified_at,
    }


def run_json(run: Run) -> str:
    """A run as an event keeps it."""
    return dumps(list(run_row(run).values()))


def run_from_json(text: str | bytes) -> Run:
    """The inverse of :func:`run_json`."""
    return run_of(tuple(loads(text)))

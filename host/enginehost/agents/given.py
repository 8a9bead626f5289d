"""What programs and callers give to sessions, looked at before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from enginehost.agents.contract import ALL_TOOLS, ToolSelection
from enginehost.caller import Caller
from enginehost.errors import InvalidRequest
from enginehost.llm.input import as_message
from enginehost.llm.message import Message, Role, Type

_TOOLS = 'tools must be "*", a list of names, {"names": […], "tags": […]}, or a ToolSelection'


def tool_selection(given: Any) -> ToolSelection | None:
    """``"*"``, a list of names, ``{"names", "tags"}``, or what these stand for. Raises ``InvalidRequest``."""
    if given is None or isinstance(given, ToolSelection):
        return given
    if given == "*":
        return ALL_TOOLS
    if isinstance(given, Mapping):
        members = cast("Mapping[str, Any]", given)
        if set(members) <= {"names", "tags"}:
            return ToolSelection(
                names=words(members.get("names", ()), _TOOLS), tags=words(members.get("tags", ()), _TOOLS)
            )
    return ToolSelection(names=words(given, _TOOLS))


def words(given: Any, fault: str) -> tuple[str, ...]:
    """A list of texts. Raises ``InvalidRequest`` with ``fault``."""
    listed = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    found = tuple(cast("Iterable[Any]", given)) if listed else ()
    if not listed or not all(isinstance(word, str) for word in found):
        raise InvalidRequest(fault)
    return found


def check_texts(**given: Any) -> None:
    """Each of these is a text, or not given. Raises ``InvalidRequest``."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise InvalidRequest(f"{name} must be a text, not {type(value).__name__}")


def check_arguments(given: Any) -> None:
    """Arguments of a call, or none. Raises ``InvalidRequest``."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRequest(f"args must be a mapping, not {type(given).__name__}")


def check_owner(owner: Any) -> None:
    """On whose behalf. Raises ``InvalidRequest``."""
    if owner is not None and not isinstance(owner, Caller):
        text = f"owner must be a Caller (enginehost.caller), not {type(owner).__name__}"
        raise InvalidRequest(text)


def row_number(name: str, given: Any, *, least: int) -> int:
    """The ``sequence`` of a row. Raises ``InvalidRequest``."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given < 1 << 63:
        raise InvalidRequest(f"{name} must be the sequence of a message: a whole number from {least} on")
    return given


def messages(given: Any) -> list[Message]:
    """A text, a message, its columns as a mapping, or several of these. Raises ``InvalidRequest``."""
    if isinstance(given, str | Message | Mapping):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, bytes | bytearray):
        text = f"write takes a text, a message, a mapping, or a list of these, not {type(given).__name__}"
        raise InvalidRequest(text)
    rows = [as_message(row) for row in cast("Sequence[Any]", given)]
    for row in rows:
        check_said(row)
    return rows


def check_said(message: Message) -> None:
    """A user's text says something. Raises ``InvalidRequest``."""
    if message.role is Role.USER and message.type is Type.TEXT and not message.content.strip():
        raise InvalidRequest("a message of type text must not be empty or blank")

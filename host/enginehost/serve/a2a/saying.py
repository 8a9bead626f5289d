"""What a client says to an agent: messages as rows of a session, and back (section 4.1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from enginehost.agents.media import check_media
from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Role, Type
from enginehost.serve.a2a.faults import CONTENT_TYPE, A2aFault
from enginehost.serve.a2a.wire import ROLE_USER
from enginehost.values import decode, encode

SAID = "message_id"
"""Member of a row's ``query``: the client's id of the message that ends with it. Nobody says it twice."""
PART = "part"
"""Member of the ``query`` of a row that further rows of the same message follow: the how many-th it is."""
EXTRA = "a2a"
"""Beside it: what else the message said and no model sees (metadata, extensions, referenceTaskIds)."""

_CONTENTS = ("text", "raw", "url", "data")
_LONGEST_ID = 256
_MOST_PARTS = 100
_ECHOED = ("metadata", "extensions", "referenceTaskIds")


@dataclass(frozen=True, slots=True)
class Said:
    """A message and how its answer is wanted.

    ``history``: how many messages of the task the answer has, all of them where it is ``None``. ``modes``:
    media types that the client takes; none says that it takes all. ``push``: where it is to be told.
    """

    id: str
    rows: Sequence[Message]
    context: str = ""
    task: str = ""
    history: int | None = None
    modes: Sequence[str] = ()
    at_once: bool = False
    push: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """The texts of the message, together."""
        return "\n".join(row.content for row in self.rows if row.type is Type.TEXT).strip()


def said_in(params: Mapping[str, Any]) -> Said:
    """The parameters of ``SendMessage``. Raises ``InvalidRequest``, and the fault for unknown media types."""
    message = obj(params, "message", required=True)
    settings = obj(params, "configuration")
    name = text(message, "messageId", required=True)
    if message.get("role") not in (ROLE_USER, 1):
        raise InvalidRequest(f"message.role must be {ROLE_USER}")
    parts = message.get("parts")
    if not isinstance(parts, list) or not parts:
        raise InvalidRequest("message.parts must be a list of at least one part")
    if len(parts) > _MOST_PARTS:
        raise InvalidRequest(f"message.parts has more than {_MOST_PARTS} parts")
    given = cast("list[Any]", parts)
    rows = [_row(part, f"message.parts[{at}]") for at, part in enumerate(given)]
    extra = {member: message[member] for member in _ECHOED if message.get(member)}
    marks: list[dict[str, Any]] = [{PART: at} for at in range(1, len(rows))]
    marks.append({SAID: name} | ({EXTRA: extra} if extra else {}))
    rows = [replace(row, query={**(row.query or {}), **mark}) for row, mark in zip(rows, marks, strict=True)]
    modes = settings.get("acceptedOutputModes") or ()
    if not isinstance(modes, list | tuple) or not all(isinstance(mode, str) for mode in modes):
        raise InvalidRequest("configuration.acceptedOutputModes must be a list of media types")
    push = settings.get("taskPushNotificationConfig")
    return Said(
        name,
        rows,
        text(message, "contextId"),
        text(message, "taskId"),
        length(settings),
        tuple(modes),
        flag(settings, "returnImmediately"),
        obj(settings, "taskPushNotificationConfig") if push else None,
    )


def _row(part: Any, at: str) -> Message:
    if not isinstance(part, dict):
        raise InvalidRequest(f"{at} must be an object")
    found = cast("dict[str, Any]", part)
    there = [name for name in _CONTENTS if found.get(name) is not None or (name == "data" and name in found)]
    if len(there) != 1:
        raise InvalidRequest(f"{at} must have exactly one of {', '.join(_CONTENTS)}")
    kind, value = there[0], found[there[0]]
    if kind == "data":
        return Message(Role.USER, Type.DATA, encode(value).decode(), _kept(found))
    if not isinstance(value, str):
        raise InvalidRequest(f"{at}.{kind} must be a text")
    if kind == "text":
        return Message(Role.USER, Type.TEXT, value, _kept(found))
    return _file(found, kind, value, at)


def _file(part: Mapping[str, Any], kind: str, value: str, at: str) -> Message:
    media = text(part, "mediaType")
    if not media and kind == "raw":
        raise A2aFault(CONTENT_TYPE, f"{at} has no mediaType, and no model takes a file of an unknown one")
    query: dict[str, Any] = {"media_type": media} if media else {}
    if kind == "url":
        query["url"] = value
    if name := text(part, "filename"):
        query["name"] = name
    row = Message(
        Role.USER,
        Type.IMAGE if media.startswith("image/") else Type.FILE,
        _standard(value) if kind == "raw" else "",
        query | (_kept(part) or {}),
    )
    try:
        check_media(row)
    except InvalidRequest as error:
        kind_of = CONTENT_TYPE if "media type" in error.message else None
        if kind_of is not None:
            raise A2aFault(kind_of, f"{at}: mediaType must be a media type, such as image/png") from None
        raise InvalidRequest(f"{at}: {error.message}") from None
    return row


def _standard(value: str) -> str:
    """Base64 in the alphabet and with the padding of RFC 4648, section 4: ProtoJSON takes the others too."""
    plain = value.translate(_ALPHABET).rstrip("=")
    return plain + "=" * (-len(plain) % 4)


_ALPHABET = str.maketrans("-_", "+/")


def _kept(part: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = part.get("metadata")
    return {"metadata": metadata} if isinstance(metadata, dict) and metadata else None


def part_of(row: Message, content: str | None = None) -> dict[str, Any]:
    """A row as a part."""
    query = row.query or {}
    content = row.content if content is None else content
    part: dict[str, Any]
    if row.type is Type.TEXT:
        part = {"text": content}
    elif row.type is Type.DATA:
        part = {"data": decode(content.encode())}
    else:
        url = query.get("url")
        part = {"url": url} if url else {"raw": content}
        if query.get("name"):
            part["filename"] = str(query["name"])
        if query.get("media_type"):
            part["mediaType"] = str(query["media_type"])
    metadata = query.get("metadata")
    return part | ({"metadata": metadata} if isinstance(metadata, dict) and row.role is Role.USER else {})


def takes(modes: Sequence[str], offered: Sequence[str]) -> bool:
    """Whether a client that takes ``modes`` takes one of those that an agent gives."""
    return not modes or any(_fits(mode, media) for mode in modes for media in offered)


def _fits(mode: str, media: str) -> bool:
    mode = mode.partition(";")[0].strip().lower()
    kind, _, _ = media.partition("/")
    return mode in ("*/*", "*", "text", media, f"{kind}/*")


# Members of objects, as ProtoJSON has them: absent, null, or of their kind


def obj(members: Mapping[str, Any], name: str, *, required: bool = False) -> dict[str, Any]:
    """An object; empty where it is not given."""
    found = members.get(name)
    if found is None and not required:
        return {}
    if not isinstance(found, dict):
        raise InvalidRequest(f"{name} {'is missing: it ' if found is None else ''}must be an object")
    return cast("dict[str, Any]", found)


def text(members: Mapping[str, Any], name: str, *, required: bool = False) -> str:
    """A text of at most 256 characters; empty where it is not given."""
    found = members.get(name)
    if found is None:
        found = ""
    if not isinstance(found, str):
        raise InvalidRequest(f"{name} must be a text")
    if required and not found:
        raise InvalidRequest(f"{name} is missing")
    if len(found) > _LONGEST_ID:
        raise InvalidRequest(f"{name} has more than {_LONGEST_ID} characters")
    return found


def flag(members: Mapping[str, Any], name: str) -> bool:
    """True or false; false where it is not given."""
    found = members.get(name)
    if found is not None and not isinstance(found, bool):
        raise InvalidRequest(f"{name} must be true or false")
    return bool(found)


def number(members: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """A whole number; ``None`` where it is not given."""
    found = members.get(name)
    if found is None:
        return None
    if isinstance(found, str) and found.isascii() and found.lstrip("-").isdigit():
        found = int(found[:20])
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}")
    return found


def length(members: Mapping[str, Any]) -> int | None:
    """``historyLength``."""
    return number(members, "historyLength", 0, 2**31 - 1)

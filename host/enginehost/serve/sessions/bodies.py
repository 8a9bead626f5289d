"""What the bodies and query strings of requests about sessions say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request

from enginehost.agents.given import check_said
from enginehost.errors import InvalidRequest
from enginehost.json_arguments import read_object
from enginehost.llm.message import Message, Role, Type, user
from enginehost.serve.request import check_media, read_body

DEFAULT_PAGE, LARGEST_PAGE = 100, 1000
_MOST_DIGITS = 18
_SAID = (Type.TEXT, Type.IMAGE, Type.FILE, Type.DATA)


class Body:
    """A JSON object, of which each member is asked for by name; one that nobody asks for is refused."""

    def __init__(self, members: Mapping[str, Any], known: tuple[str, ...]) -> None:
        if strange := sorted(set(members) - set(known)):
            raise InvalidRequest(f"unknown member {strange[0][:100]!r}; {_allowed(known)}")
        self._members = members

    def text(self, name: str, *, required: bool = False) -> str:
        """A text; empty where it is not given."""
        found = self._members.get(name)
        if found is None and not required:
            return ""
        if found is None:
            raise InvalidRequest(f"{name} is missing: it must be a text")
        if not isinstance(found, str):
            raise InvalidRequest(f"{name} must be a text")
        if required and not found:
            raise InvalidRequest(f"{name} must not be empty")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text that is not empty; ``None`` where it is not given."""
        return None if self._members.get(name) is None else self.text(name, required=True)

    def number(self, name: str) -> int | None:
        """A whole number from 1 on."""
        found = self._members.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 10**_MOST_DIGITS:
            raise InvalidRequest(f"{name} must be a whole number from 1 on")
        return found

    def object(self, name: str) -> dict[str, Any]:
        """An object that has to be there."""
        found = self._members.get(name)
        if found is None:
            raise InvalidRequest(f"{name} is missing: it must be an object")
        if not isinstance(found, dict):
            raise InvalidRequest(f"{name} must be an object")
        return cast("dict[str, Any]", found)

    def only(self, *names: str, why: str) -> None:
        """Refuse what is given beside these members. Raises ``InvalidRequest``, which says ``why``."""
        if strange := sorted(set(self._members) - set(names)):
            raise InvalidRequest(f"{strange[0][:100]} does not go with {why}")

    def any(self, name: str) -> Any:
        """Whatever stands there."""
        return self._members.get(name)


def _allowed(known: tuple[str, ...]) -> str:
    if not known:
        return "none is taken"
    return f"there {'are' if len(known) > 1 else 'is only'} {', '.join(known)}"


async def body_of(request: Request, most_bytes: int, *known: str) -> Body:
    """The JSON body; none is an empty object."""
    headers = dict(request.scope["headers"])
    check_media(headers)
    body = await read_body(request.receive, headers, most_bytes)
    return Body(read_object(body), known)


def messages_in(given: Any) -> list[Message]:
    """``message``: a text, a message, or a list of them, all of the user's.

    A message is ``{"type": "text" | "image" | "file" | "data", "content", "query"}``.
    """
    parts = cast("list[Any]", given) if isinstance(given, list) else [given]
    if given is None or not parts:
        raise InvalidRequest("message must be a text, or a list of messages, and not empty")
    said = [_message(part) for part in parts]
    for one in said:
        check_said(one)
    return said


def _message(part: Any) -> Message:
    if isinstance(part, str):
        return user(part)
    if not isinstance(part, dict):
        raise InvalidRequest("a message must be a text or an object")
    members = cast("dict[str, Any]", part)
    given = Body(members, ("type", "content", "query", "role"))
    kind = given.text("type") or "text"
    if kind not in _SAID or (given.text("role") or Role.USER) != Role.USER:
        raise InvalidRequest(f"a user says messages of type {', '.join(_SAID)}; role is user")
    query = None if given.any("query") is None else given.object("query")
    return Message(Role.USER, Type(kind), given.text("content"), query=query)


def sequence_in(request: Request, name: str) -> int | None:
    """A row's number in the query string."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise InvalidRequest(f"{name} must be the sequence of a message")
    return int(text)


def limit_in(request: Request) -> int:
    """How many are asked for."""
    text = request.query_params.get("limit")
    if text is None:
        return DEFAULT_PAGE
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= LARGEST_PAGE):
        raise InvalidRequest(f"limit must be a number from 1 to {LARGEST_PAGE}")
    return int(text)

"""Turns pages: what stands on one, and which request asks for the next. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast
from urllib.parse import quote, urljoin, urlsplit

from enginehost.errors import ExecutionFailed, InvalidArguments
from enginehost.values import encode
from enginehost_engines.rest.pagination import Pagination
from enginehost_engines.rest.request import QUERY_SAFE, Message
from enginehost_engines.rest.response import NOTHING, Answer, Selector, make_selector
from enginehost_engines.rest.url import DEFAULT_PORTS, Origin

_MOST_DIGITS = 18

Arguments = Mapping[str, Any]


class Turner:
    """One call's way through the pages. ``make`` gives the request for some arguments."""

    def __init__(
        self, rule: Pagination, items: str | None, arguments: Arguments, make: Callable[[Arguments], Message]
    ) -> None:
        self.rule = rule
        self._where = items
        self._items = make_selector(items)
        self._arguments = arguments
        self._make = make
        self._seen: set[bytes] = set()
        self._is_first = True
        self._is_repeated = False
        self._number = _number(rule, arguments)
        self.message = self._first()

    def _first(self) -> Message:
        rule = self.rule
        if rule.parameter is not None and rule.style != "cursor":
            return self._with(self._number)
        message = self._make(self._arguments)
        self._seen |= {message.target, encode(self._arguments.get(rule.parameter or ""))}
        return message

    def items(self, answer: Answer, page: Any) -> list[Any]:
        """The items of a page; none where it was there before.

        :class:`ExecutionFailed` where it has no list. (Services leave an empty one out, so after the first
        page it may be missing.)
        """
        if self.rule.style in ("page", "offset") and self._is_seen(sha256(answer.body).digest()):
            self._is_repeated = True
            return []
        found = page if self._items is None or page is None else self._items(page)
        if found is None or (found is NOTHING and not self._is_first):
            return []
        if not isinstance(found, list):
            where = f"at {self._where}" if self._where else "as a whole"
            message = f"the answer of {self._host} is no page: {where} it has to be a list"
            hint = "items in PAGINATION says where the list is"
            raise ExecutionFailed(message, detail={"status": answer.status, "hint": hint})
        return cast("list[Any]", found)

    @property
    def _host(self) -> str:
        return self.message.origin.authority

    def turn(self, answer: Answer, page: Any, items: list[Any]) -> bool:
        """Go on to the next page; whether there is one. What was asked before is not asked again."""
        self._is_first = False
        try:
            following = self._turned(answer, page, items)
        except InvalidArguments as error:
            raise ExecutionFailed(f"{self._host} gave a cursor that no request can carry") from error
        if following is None:
            return False
        self.message = following
        return True

    def _turned(self, answer: Answer, page: Any, items: list[Any]) -> Message | None:
        rule = self.rule
        if rule.style == "link":
            return self._linked(_linked_by(answer) if rule.next is None else _picked(rule.next, page))
        if rule.style == "cursor":
            return self._at(_picked(rule.cursor, page))
        step = rule.step or (len(items) if rule.style == "offset" else 1)
        goes_on = bool(items) if rule.more is None else bool(_picked(rule.more, page))
        if not goes_on or not step or self._is_repeated:
            return None
        self._number += step
        return self._with(self._number)

    def _at(self, cursor: Any) -> Message | None:
        if cursor in (None, "", False) or self._is_seen(encode(cursor)):
            return None
        return self._with(cursor)

    def _with(self, value: Any) -> Message:
        return self._make({**self._arguments, self.rule.parameter or "": value})

    def _linked(self, link: Any) -> Message | None:
        if not isinstance(link, str) or not link.strip():
            return None
        target = same_origin(self.message, link.strip())
        return None if self._is_seen(target) else replace(self.message, target=target)

    def _is_seen(self, mark: bytes) -> bool:
        if mark in self._seen:
            return True
        self._seen.add(mark)
        return False


class NoNumber(InvalidArguments):
    """A caller gave a first page, or offset, that is no number."""

    def __init__(self, parameter: str) -> None:
        pointer = "/" + parameter.replace("~", "~0").replace("/", "~1")
        message = "must be a whole number: the pages are counted from it"
        super().__init__(f"{parameter!r} {message}", errors=[{"pointer": pointer, "message": message}])


def _number(rule: Pagination, arguments: Arguments) -> int:
    """Where to begin: a caller may say so, where the parameter is one of the function's."""
    given = arguments.get(rule.parameter or "")
    if rule.style in ("link", "cursor") or given is None:
        return rule.first
    text = str(given)
    if isinstance(given, bool) or not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise NoNumber(rule.parameter or "")
    return int(text)


def _picked(path: str | None, page: Any) -> Any:
    select: Selector | None = make_selector(path)
    found = page if select is None else select(page)
    return None if found is NOTHING else found


def _linked_by(answer: Answer) -> str | None:
    """The target of the header ``Link`` with the relation ``next`` (RFC 8288)."""
    from httpx2 import Response

    headers = {"link": answer.headers.get("link", "")}
    for relation, link in Response(200, headers=headers).links.items():
        if "next" in (relation or "").lower().split():
            return link.get("url")
    return None


def same_origin(message: Message, link: str) -> bytes:
    """Path and query of a link on the page that ``message`` asked for.

    A link with the other scheme on the same host (both with their own ports), as services behind a proxy
    write it, is followed with the scheme of the file. :class:`ExecutionFailed` where it leads elsewhere:
    credentials may not go there.
    """
    here = message.origin
    try:
        there = urlsplit(urljoin(f"{here.scheme}://{here.authority}{message.target.decode()}", link))
        port = there.port or DEFAULT_PORTS.get(there.scheme, 0)
    except ValueError:
        raise ExecutionFailed(f"{here.authority} gave a link to the next page that is none") from None
    origin = Origin(there.scheme, there.hostname or "", port)
    plain = {("http", 80), ("https", 443)}
    only_scheme = origin.host == here.host and {(origin.scheme, port), (here.scheme, here.port)} <= plain
    if origin != here and not only_scheme:
        message_text = f"{here.authority} has its next page at another origin, and none is asked there"
        raise ExecutionFailed(message_text, detail={"hint": "a link has to stay on the host of the file"})
    target = (there.path or "/") + (f"?{there.query}" if there.query else "")
    return quote(target, safe=QUERY_SAFE).encode()

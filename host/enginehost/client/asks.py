"""What is asked of a host: each request as a value, with the way to read its answer."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

from enginehost.client.faults import NotAHost
from enginehost.values import MalformedJson, decode, encode, read

T = TypeVar("T")

Body = bytes | Iterable[bytes] | AsyncIterable[bytes]

PAGE = 1000
"""Functions that one answer brings."""
_JSON = "application/json"
EVENTS = "text/event-stream"
QUIET_SECONDS = 45.0
"""How long a stream may be silent: a host gives a sign of life every 15 s."""
GRACE_SECONDS = 5.0
"""How long the answer of a call with a deadline may be on its way after it."""
_LIST_SECONDS = 60.0
"""How long a host may take for what is no call."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``live``: the library's response, where it is read as it comes."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    live: Any = None

    @property
    def good(self) -> bool:
        """Whether it is what was asked for."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """One request. ``timeout`` is the deadline that the host is told, ``wait`` how long the connection may be
    silent (``None``: as long as it likes).

    ``live``: the answer is read as it comes. ``after``: the event to go on after.
    """

    method: str
    path: str
    take: Callable[[Answer], T]
    query: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    body: Body | None = None
    media: str = _JSON
    accept: str = ""
    after: str = ""
    timeout: float | None = None
    wait: float | None = None
    live: bool = False

    @property
    def shown(self) -> str:
        """What it asks for."""
        return f"{self.method} {self.path}"

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again, whatever came of it."""
        return self.method == "GET"

    @property
    def once(self) -> bool:
        """Whether its body can be sent one time only."""
        return self.body is not None and not isinstance(self.body, bytes)

    def headers(self, left: float | None) -> dict[str, str]:
        """Its headers; ``left`` is what is left of the deadline."""
        found = {"content-type": self.media} if self.body is not None else {}
        if self.accept:
            found["accept"] = self.accept
        if self.after:
            found["last-event-id"] = self.after
        if left is not None:
            found["request-timeout"] = f"{left:g}"
        return found


def get(
    path: str, take: Callable[[Answer], T], query: Mapping[str, str | int | None] | None = None
) -> Ask[T]:
    """A request that only reads."""
    asked = {key: value for key, value in (query or {}).items() if value not in ("", None)}
    return Ask("GET", path, take, asked, wait=_LIST_SECONDS)


def post(path: str, take: Callable[[Answer], T], body: Mapping[str, Any] | None = None) -> Ask[T]:
    """A request that changes something."""
    given = {key: value for key, value in (body or {}).items() if value is not None}
    return Ask("POST", path, take, body=encode(given), wait=_LIST_SECONDS)


def json_of(answer: Answer) -> Any:
    """The JSON of an answer that tells of things."""
    try:
        return read(answer.body)
    except MalformedJson:
        raise _strange(answer) from None


def member(name: str, *, needed: bool = True) -> Callable[[Answer], Any]:
    """Reads one member of the object that a host answers with."""

    def take(answer: Answer) -> Any:
        found = json_of(answer)
        if not isinstance(found, dict) or (needed and name not in found):
            raise _strange(answer)
        return cast("dict[str, Any]", found).get(name)

    return take


def nothing(answer: Answer) -> None:
    """Reads an answer without content."""


def live(answer: Answer) -> Any:
    """Takes an answer that is read as it comes."""
    return answer.live


def result_of(answer: Answer) -> Any:
    """The result of a call: a value."""
    try:
        found = decode(answer.body)
    except MalformedJson:
        raise _strange(answer) from None
    if not isinstance(found, dict) or "result" not in found:
        raise _strange(answer)
    return cast("dict[str, Any]", found)["result"]


def _strange(answer: Answer) -> NotAHost:
    return NotAHost("the answer is not what a host says", detail={"status": answer.status})


def function_path(name: str) -> str:
    """The path of a function."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the name of a function has to be text, not {type(name).__name__}")
    return f"/v1/functions/{quote(name, safe='')}"


def call(name: str, arguments: Mapping[str, Any] | None, timeout: float | None, kind: str) -> Ask[Any]:
    """Calls a function; ``kind``: as a model that was given tools of that kind."""
    return Ask(
        "POST",
        function_path(name),
        result_of,
        {"format": kind} if kind else {},
        encode(dict(arguments or {})),
        timeout=timeout,
        wait=timeout + GRACE_SECONDS if timeout else None,
    )


def stream(name: str, arguments: Mapping[str, Any] | None, timeout: float | None, kind: str) -> Ask[Any]:
    """Calls a function whose items are read as they come."""
    return Ask(
        "POST",
        function_path(name),
        live,
        {"format": kind} if kind else {},
        encode(dict(arguments or {})),
        accept=EVENTS,
        timeout=timeout,
        wait=QUIET_SECONDS,
        live=True,
    )


def functions(tags: Iterable[str], query: str, cursor: str) -> Ask[dict[str, Any]]:
    """A page of functions."""
    return get(
        "/v1/functions", json_of, {"limit": PAGE, "tags": tag_list(tags), "q": query, "cursor": cursor}
    )


def tools(
    kind: str, tags: Iterable[str], query: str, most: int | None, may_call: bool
) -> Ask[list[dict[str, Any]]]:
    """The functions as tools; with ``may_call``, ``query`` or ``most`` those that may be called."""
    ask = get("/v1/tools", json_of, {"format": kind, "tags": tag_list(tags), "query": query, "most": most})
    return replace(ask, query={**ask.query, "query": query}) if may_call else ask


def tag_list(tags: Iterable[str]) -> str:
    """Tags as a query string has them; a plain text is one."""
    return tags if isinstance(tags, str) else ",".join(tags)


def status_of(answer: Answer) -> str:
    """What a host says of itself; 503 is an answer too."""
    return str(member("status")(answer))

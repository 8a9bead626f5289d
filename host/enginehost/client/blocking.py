"""The client that blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from enginehost.client import asks, session_asks
from enginehost.client.answers import AgentAnswer, item_in
from enginehost.client.asks import Answer, Ask
from enginehost.client.blocking_session import Session
from enginehost.client.events import Event, EventReader
from enginehost.client.faults import ConnectionLost, failure
from enginehost.client.place import checked_timeout, place_of, trace_headers, waits
from enginehost.client.talk import Outcome, Send, talk
from enginehost.errors import EngineHostError

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


class Client:
    """The host at ``url``, asked on behalf of whoever holds ``token``. Any thread may use it.

    Both default to the variables ``ENGINEHOST_URL`` and ``ENGINEHOST_TOKEN``, and the URL then to
    ``http://127.0.0.1:8484``. ``timeout`` is the deadline of calls that say none, in seconds. A request that
    cannot have run is sent again ``retries`` times. Connections are opened when they are needed, and closed
    with the client.

    Every method raises the errors of the host, :class:`HostUnreachable`, :class:`ConnectionLost` and
    :class:`NotAHost`. The constructor raises ``ValueError``.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float | None = None,
        retries: int = 2,
    ) -> None:
        self._place = place_of(url, token, retries, timeout)
        self._http: httpx2.Client | None = None
        self._closed = False
        self._making = threading.Lock()
        """Whoever makes the connections holds it: two threads would make two."""

    @property
    def url(self) -> str:
        """Where the host is."""
        return self._place.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client is used up."""
        self._closed = True
        if self._http is not None:
            self._http.close()

    # Functions

    def functions(self, tags: Iterable[str] = (), query: str = "") -> Iterator[dict[str, Any]]:
        """The functions in short, by name: those that have one of ``tags``, and ``query`` in their texts."""
        cursor = ""
        while True:
            page = self.ask(asks.functions(tags, query, cursor))
            yield from page["functions"]
            if not (cursor := page.get("next_cursor", "")):
                return

    def describe(self, name: str) -> dict[str, Any]:
        """Everything there is to know of a function."""
        return self.ask(asks.get(asks.function_path(name), asks.json_of))

    def spec(self, name: str, kind: str = "openai") -> dict[str, Any]:
        """A function as a tool of one kind (:func:`enginehost.specs.spec_kinds`)."""
        return self.ask(asks.get(asks.function_path(name), asks.json_of, {"format": kind}))

    def tools(
        self,
        kind: str = "openai",
        *,
        tags: Iterable[str] = (),
        query: str = "",
        most: int | None = None,
        may_call: bool = False,
    ) -> list[dict[str, Any]]:
        """The functions as tools: all that may be viewed; with ``may_call`` those that may be called too.

        So are those with ``query``, of which the best come first, and with ``most``, which bounds them.
        """
        return self.ask(asks.tools(kind, tags, query, most, may_call))

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        kind: str = "",
    ) -> Any:
        """Call a function and give its result (a list, where it streams).

        ``timeout`` is told to the host, and can only shorten what it allows. ``kind``: name and arguments are
        those of a model that was given tools of this kind.
        """
        return self.ask(asks.call(name, arguments, self._timeout(timeout), kind))

    def stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        kind: str = "",
    ) -> Generator[Any, None, None]:
        """The items of a function as they come; closing it cancels the call."""
        ask = asks.stream(name, arguments, self._timeout(timeout), kind)
        with self.opened(ask) as events:
            for event in events:
                if event.name == "done":
                    return
                has, item = item_in(event)
                if has:
                    yield item
        raise ConnectionLost(f"the stream of {name} ended early: the host may have stopped")

    def engines(self) -> list[dict[str, Any]]:
        """The engines with their states and problems."""
        return self.ask(asks.get("/v1/engines", asks.member("engines")))

    # Agents

    def agents(self) -> list[dict[str, Any]]:
        """The agents, of this host and of others."""
        return self.ask(session_asks.agents())

    def ask_agent(
        self, message: str, agent: str = "", *, conversation: str = "", timeout: float | None = None
    ) -> AgentAnswer:
        """Ask an agent; without ``agent`` the one that the question is for.

        ``conversation`` goes on with one, or gives a new one its id.
        """
        return self.ask(session_asks.question(message, agent, conversation, None, self._timeout(timeout)))

    def stream_agent(
        self, message: str, agent: str = "", *, conversation: str = "", timeout: float | None = None
    ) -> Generator[Any, None, None]:
        """Ask an agent; the pieces of its answer as they come."""
        with self.opened(session_asks.told(message, agent, conversation, self._timeout(timeout))) as events:
            for event in events:
                if event.name == "done":
                    return
                has, item = item_in(event)
                if has:
                    yield item
        raise ConnectionLost("the answer ended early: the host may have stopped")

    def decide(
        self, agent: str, conversation: str, decision: Mapping[str, Any], *, timeout: float | None = None
    ) -> AgentAnswer:
        """Decide what a conversation waits for, and give what comes of it.

        ``decision`` is ``{"question", "decision", "text", "args"}``.
        """
        return self.ask(session_asks.question("", agent, conversation, decision, self._timeout(timeout)))

    # Sessions

    def start(
        self,
        agent: str,
        id: str | None = None,
        *,
        system: str | None = None,
        tools: str | Sequence[str] | Mapping[str, Any] | None = None,
    ) -> Session:
        """A new session with an agent; with ``id`` the one that there is, where it is yours."""
        return Session(self, str(self.ask(session_asks.start(agent, id, system, tools))["id"]))

    def session(self, id: str) -> Session:
        """A session by its id; the host is not asked."""
        return Session(self, id)

    def sessions(self) -> Iterator[dict[str, Any]]:
        """Your sessions, the latest first."""
        cursor = ""
        while True:
            page = self.ask(session_asks.sessions(cursor))
            yield from page["sessions"]
            if not (cursor := page.get("next_cursor", "")):
                return

    def import_session(self, lines: bytes | Iterable[bytes], id: str = "") -> Session:
        """A session from the JSON lines of :meth:`Session.export`."""
        return Session(self, self.ask(session_asks.bring_in(lines, id)))

    # The host

    def alive(self) -> bool:
        """Whether a host answers there."""
        try:
            return self.ask(asks.get("/healthz", asks.member("status"))) == "ok"
        except EngineHostError:
            return False

    def status(self) -> str:
        """``ready``, ``loading`` or ``draining``."""
        return asks.status_of(self._exchange(asks.get("/readyz", asks.json_of), None))

    # Inside

    def ask(self, ask: Ask[T]) -> T:
        """For the parts of this package: send a request, and read its answer."""
        steps = talk(ask, self.url, self._place.retries)
        outcome: Outcome = None
        try:
            while True:
                step = steps.send(outcome)
                outcome = self._do(ask, step)
        except StopIteration as done:
            return done.value

    @contextmanager
    def opened(self, ask: Ask[Any]) -> Generator[Iterator[Event], None, None]:
        """For the parts of this package: the events of a request."""
        with self.read(ask) as chunks:
            yield _events(chunks)

    @contextmanager
    def read(self, ask: Ask[Any]) -> Generator[Iterator[bytes], None, None]:
        """For the parts of this package: the bytes of an answer as they come."""
        response: httpx2.Response = self.ask(ask)
        try:
            yield self._chunks(response, ask)
        finally:
            response.close()

    def _chunks(self, response: httpx2.Response, ask: Ask[Any]) -> Iterator[bytes]:
        import httpx2

        try:
            yield from response.iter_bytes()
        except httpx2.TransportError as error:
            raise failure(error, ask, self.url) from error

    def _do(self, ask: Ask[Any], step: Send | float) -> Outcome:
        if not isinstance(step, Send):
            time.sleep(step)
            return None
        try:
            return self._exchange(ask, step.left)
        except EngineHostError as error:
            return error

    def _exchange(self, ask: Ask[Any], left: float | None) -> Answer:
        import httpx2

        http = self._connected()
        wait = ask.wait if left is None or ask.live else left + asks.GRACE_SECONDS
        request = http.build_request(
            ask.method,
            ask.path,
            params=dict(ask.query),
            content=ask.body,  # pyright: ignore[reportArgumentType] - one that is read asynchronously fails there
            headers=ask.headers(left) | trace_headers(),
            timeout=waits(wait),
        )
        try:
            response = http.send(request, stream=ask.live)
            if not ask.live:
                return Answer(response.status_code, response.headers, response.content)
            if response.is_success:
                return Answer(response.status_code, response.headers, live=response)
            try:
                return Answer(response.status_code, response.headers, response.read())
            finally:
                response.close()
        except httpx2.TransportError as error:
            raise failure(error, ask, self.url) from error

    def _connected(self) -> httpx2.Client:
        if self._closed:
            raise RuntimeError("this client is closed")
        with self._making:
            if self._http is None:
                import httpx2

                self._http = httpx2.Client(**self._place.options())
            return self._http

    def _timeout(self, timeout: float | None) -> float | None:
        return self._place.timeout if timeout is None else checked_timeout(timeout)


def _events(chunks: Iterable[bytes]) -> Iterator[Event]:
    reader = EventReader()
    for chunk in chunks:
        yield from reader.feed(chunk)

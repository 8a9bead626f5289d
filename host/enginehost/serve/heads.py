"""Bounds a request's head (its first line and headers), and what frames its body (chunk extensions,
trailers): in size, and in the time they may take to arrive.

uvicorn bounds neither where httptools parses. A client that sends them byte by byte, or without end, would
hold a connection and memory for as long as it likes, and the event loop with one trailer that keeps growing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from enginehost.errors import EngineHostError, Overloaded
from enginehost.serve.crowd import Crowd
from enginehost.serve.problem import HttpRefusal, problem_headers, problem_json, status_of

MOST_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 15.0
"""How long a head may take from its first byte. Before that a connection may be idle as between requests."""
_OWN_BYTES_OF_A_CHUNK = 24
"""Of what frames a body, each chunk may have so many bytes for its size and line ends: they bring data."""
LINGER_SECONDS = 1.0
"""How long a refused client is still read from: closing at once would take the answer back (TCP reset)."""

_log = logging.getLogger("enginehost.http")


class HeadGuard(asyncio.Protocol):
    """Stands before one of uvicorn's protocols, which says :meth:`in_head`.

    A request that arrives in one piece, as almost all do, costs three comparisons.
    """

    # what uvicorn's protocols have
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    timeout_keep_alive: int
    timeout_keep_alive_task: asyncio.TimerHandle | None

    crowd: Crowd | None = None
    """The connections of the server, where it bounds them."""

    _room = MOST_HEAD_BYTES
    """Bytes that the head may still have; 0 when it was refused."""
    _late: asyncio.TimerHandle | None = None
    """Runs while a head is incomplete."""
    _unfinished: Any = None
    """The request whose body was incomplete when data last came; the numbers below are of that body."""
    _fed = 0
    _seen = 0
    carried = 0
    """Bytes of data in what was fed to the parser; the parser's side counts them, and the chunks."""
    chunks = 0
    _stalled: asyncio.TimerHandle | None = None
    """Runs while only framing comes where data is awaited."""

    def in_head(self) -> bool:
        """Whether a request has begun, or must yet begin, and its headers are not complete."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        super().connection_made(transport)
        try:
            if self.crowd is not None:
                self.crowd.enter(self)
        except Overloaded as full:
            self._room = 0
            self.transport.write(whole_answer(full, "Too Many Requests"))
            self.transport.close()
        else:
            self._be_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        if self.crowd is not None:
            self.crowd.leave(self)
        self._stop_waiting()
        self._go_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        if len(data) > self._room:
            self._take_in_pieces(data)
            return
        super().data_received(data)
        if self.in_head():
            self._grow(len(data))
            return
        if self._late is not None:
            self._stop_waiting()
        cycle = self.cycle
        if cycle is None:
            return
        if cycle.more_body:
            self._weigh_framing(cycle, len(data))
        if cycle.response_complete and self.timeout_keep_alive_task is None:
            self._be_idle()  # blank lines, or the rest of a body nobody wants: uvicorn has stopped the timer

    @property
    def asked(self) -> bool:
        """Whether a request has come, of which the head is complete."""
        return self.cycle is not None

    def give_way(self) -> None:
        """Close: another connection needs the place."""
        self.transport.close()

    def _take_in_pieces(self, data: bytes) -> None:
        """Hand on no more than a head may have at a time, so that none is complete before it is refused."""
        while data and self._room > 0 and not self.transport.is_closing():
            piece, data = data[: self._room], data[self._room :]
            self.data_received(piece)

    def _grow(self, size: int) -> None:
        if self.transport.is_closing() or not self._room:
            return
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)
            if self.answering:
                return  # what came may be the end of the request before
        self._room -= size
        if self._room <= 0:
            self._refuse()

    @property
    def answering(self) -> bool:
        """Whether an answer is on its way."""
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        if self.answering:  # the next head may be late: it is not its turn
            self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)
            return
        _log.info("a connection was closed: the head of a request did not arrive within %g s", HEAD_SECONDS)
        self.transport.close()

    def _weigh_framing(self, cycle: Any, size: int) -> None:
        """Look at the body of ``cycle``, which is incomplete, when ``size`` bytes more have come."""
        if cycle is not self._unfinished:  # in these bytes its head ended: they are not weighed
            self._unfinished = cycle
            self._fed = self._seen = self.carried = self.chunks = 0
            self._go_on()
            return
        self._fed += size
        if self._fed - self.carried > MOST_HEAD_BYTES + _OWN_BYTES_OF_A_CHUNK * self.chunks:
            what = "the chunk extensions and trailers of a body"
            self.break_off(HttpRefusal(431, f"{what} may have {MOST_HEAD_BYTES} bytes together"))
        elif self.carried != self._seen:
            self._seen = self.carried
            self._go_on()
        elif self._stalled is None and not cycle.response_complete:
            self._stalled = self.loop.call_later(HEAD_SECONDS, self._give_up_body, cycle)

    def _give_up_body(self, cycle: Any) -> None:
        self._stalled = None
        if cycle is self.cycle and cycle.more_body and not cycle.response_complete:
            self.break_off(HttpRefusal(408, f"nothing but framing of the body came for {HEAD_SECONDS:g} s"))

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def break_off(self, error: HttpRefusal) -> None:
        """Refuse the request whose body is arriving, and read no more."""
        raise NotImplementedError

    def _refuse(self) -> None:
        error = HttpRefusal(431, f"the head of a request may have {MOST_HEAD_BYTES} bytes")
        self.say_last(error, "Request Header Fields Too Large")

    def read_no_more(self) -> None:
        """Whatever comes now is dropped."""
        self._stop_waiting()
        self._go_on()
        self._room = 0

    def say_last(self, error: HttpRefusal, phrase: str) -> None:
        """Refuse the request that begins, once those before it are answered, and end the connection."""
        self.read_no_more()
        _log.info("request refused with %d: %s", error.status, error.message)
        answer = whole_answer(error, phrase)
        if not self.answering:
            self._part(answer)
            return
        answered = self.cycle.on_response

        def then() -> None:
            answered()
            self._part(answer)

        self.cycle.on_response = then  # of the latest request: all before it are answered by then

    def _part(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        self._room = MOST_HEAD_BYTES if self._room > 0 else 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _be_idle(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.transport.close)


def whole_answer(error: EngineHostError, phrase: str) -> bytes:
    """The bytes of an answer to a request that never reaches the application; the connection ends."""
    body = problem_json(error)
    headers = [*problem_headers(error), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    head = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status_of(error), phrase.encode(), head, body)

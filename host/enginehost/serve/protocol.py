"""uvicorn's HTTP protocols, with bounded heads and framing of requests, each answer sent in one piece.

ASGI hands over head and body one after the other, and uvicorn writes each by itself: two system calls and
two packets for a short answer, which cost more than all that the host does for a call.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from enginehost.serve.heads import LINGER_SECONDS, HeadGuard
from enginehost.serve.problem import HttpRefusal

_STATUS_LINE = b"HTTP/1.1 "


class OneWrite(asyncio.Transport):
    """A transport that keeps the head of an answer until its body comes, or until the loop turns.

    Everything else goes out at once, so that back-pressure works as ever.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._head = b""
        self.takes_whole = False
        """Whether :func:`answer_whole` may write to it."""
        self.lingers = False
        """Whether the client is still read from for a moment after the last word, so that it arrives."""
        self._parting = False

    def write(self, data: Any) -> None:
        """Send ``data``, behind a head that waits; keep it if it is a head."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_STATUS_LINE):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def write_whole(self, answer: bytes) -> None:
        """Send an answer, head and body."""
        self._flush()
        self._transport.write(answer)

    def close(self) -> None:
        """Send what waits, and close."""
        self._flush()
        if self.lingers and not self._parting and not self._transport.is_closing():
            self._parting = True
            self._transport.write_eof()
            self._loop.call_later(LINGER_SECONDS, self._transport.close)
        elif not self._parting:
            self._transport.close()

    def can_write_eof(self) -> bool:
        """Whether the client can be told that nothing more comes, and still be heard."""
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        """Send what waits, and that it is all."""
        self._flush()
        self._transport.write_eof()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed or closes."""
        return self._parting or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no more from the client for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on taking."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol."""
        self._transport.set_protocol(protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the system knows of the connection."""
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
        self._head = b""


def answer_whole(send: Any, head: bytes, body: bytes) -> bool:
    """Answer a request with 200 in one piece; ``head`` are lines of headers. ``False``: nothing was done.

    What uvicorn's ``RequestResponseCycle.send`` does in two steps, without a look at headers of our own: it
    takes as long as the call. ``send`` is ASGI's; the request's method is not HEAD.
    """
    cycle = getattr(send, "__self__", None)
    out = getattr(cycle, "transport", None)
    if type(out) is not OneWrite or not out.takes_whole or cycle is None:
        return False
    if cycle.response_started or cycle.disconnected or cycle.access_log or cycle.flow.write_paused:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    more = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])
    if not cycle.keep_alive:
        more += b"connection: close\r\n"
    out.write_whole(b"HTTP/1.1 200 OK\r\n%b%b\r\n%b" % (more, head, body))
    cycle.message_event.set()
    if not cycle.keep_alive:
        out.close()
    cycle.on_response()
    return True


class _Connection(HeadGuard):
    scope: Any
    """Of the request that was last begun."""
    _out: OneWrite

    def connection_made(self, transport: Any) -> None:
        self._out = OneWrite(transport)
        super().connection_made(self._out)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP as every other mistake is answered, and close (uvicorn calls it)."""
        begun = self.cycle
        if begun is None or begun.scope is not self.scope or not begun.more_body:
            self.say_last(HttpRefusal(400, "this is not a valid HTTP request"), "Bad Request")
        else:
            self.break_off(HttpRefusal(400, "the body of this request is not valid HTTP"))

    def break_off(self, error: HttpRefusal) -> None:
        """Refuse the request whose body is arriving, and read no more."""
        begun = self.cycle
        self.read_no_more()
        self._out.lingers = True
        if begun.response_complete:  # a second answer would pass for that to another request
            self.transport.close()
        else:
            begun.keep_alive = False
            heard, begun.message_event = begun.message_event, _NoBody(error)
            heard.set()


class _NoBody:
    """Stands in for the event on which a request's body is awaited, when its rest is refused."""

    def __init__(self, error: HttpRefusal) -> None:
        self._error = error

    async def wait(self) -> None:
        raise self._error

    def set(self) -> None: ...

    def clear(self) -> None: ...


class H11Connection(_Connection, H11Protocol):
    """A connection parsed by h11."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        next_event = self.conn.next_event

        def counted() -> Any:
            event = next_event()
            if isinstance(event, h11.Data):
                self.carried += len(event.data)
                self.chunks += event.chunk_start
            return event

        self.conn.next_event = counted

    def in_head(self) -> bool:
        """Whether the parser waits for the rest of a head, or for one to begin."""
        return self.conn.their_state is h11.IDLE


HttpProtocol: type[asyncio.Protocol] = H11Connection
"""httptools where it is installed, else h11."""

with suppress(ImportError):
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class HttpToolsConnection(_Connection, HttpToolsProtocol):
        """A connection parsed by httptools."""

        def in_head(self) -> bool:
            """Whether uvicorn has yet to read the method: it does when the headers are complete."""
            return not self.scope or "method" not in self.scope

        def connection_made(self, transport: Any) -> None:
            """A client has connected."""
            super().connection_made(transport)
            self._out.takes_whole = True

        def on_body(self, body: bytes) -> None:
            """Data of a body has come."""
            self.carried += len(body)
            HttpToolsProtocol.on_body(self, body)

        def on_chunk_header(self) -> None:
            """A chunk begins, perhaps the last, empty one. Headers are trailers now, which decide nothing."""
            self.chunks += 1
            self.headers = []

    HttpProtocol = HttpToolsConnection

"""One call over HTTP: arguments in, ``{"result": …}``, a plain result or events out. The hot path."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Send

from enginehost.caller import Caller
from enginehost.drive import resume
from enginehost.engine import Call
from enginehost.errors import EngineHostError
from enginehost.invoke import as_told
from enginehost.json_arguments import read_object
from enginehost.serve.disconnect import Watch
from enginehost.serve.events import QUIET_SECONDS, EventStream
from enginehost.serve.gate import cors
from enginehost.serve.problem import HeaderList, refuse
from enginehost.serve.request import Headers, check_media, read_body, timeout_of, trace_of, wants_events

if TYPE_CHECKING:
    from enginehost.host import Host

_JSON = (b"content-type", b"application/json")
_NO_TRACE = (0, 0)


class Exchange:
    """One request whose caller is known, and its answer. ``origin``: the foreign page it is opened to."""

    __slots__ = (
        "_calls",
        "_headers",
        "_host",
        "_max_body_bytes",
        "_receive",
        "_send",
        "_stream",
        "caller",
        "origin",
    )

    def __init__(
        self,
        host: Host,
        caller: Caller,
        headers: Headers,
        origin: bytes | None,
        receive: Receive,
        send: Send,
        max_body_bytes: int,
    ) -> None:
        self.caller = caller
        self.origin = origin
        self._host = host
        self._headers = headers
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._calls: list[Call] = []
        self._stream: EventStream | None = None

    async def run(self, shown: str, *, kind: str | None = None, wrapped: bool = True) -> None:
        """Call the function ``shown`` (a name, or a mapped one) and answer.

        ``kind``: the arguments are as a model sent them that was given tools of this kind. ``wrapped``:
        with ``{"result": …}`` around the result.
        """
        try:
            headers = self._headers
            if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
                check_media(headers)
            arguments = read_object(await read_body(self._receive, headers, self._max_body_bytes))
            name = function_name(self._host, shown, self.caller)
            if kind is not None:
                arguments = self._as_the_function_takes_them(name, kind, arguments)
            if wants_events(headers):
                await self._answer_events(name, arguments)
            else:
                await self._answer(name, arguments, wrapped)
        except EngineHostError as error:
            await self.fail(shown, error)

    def _as_the_function_takes_them(self, name: str, kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
        from enginehost.specs import arguments_from

        entry = self._host.catalog.get(name)
        if entry is None or not self._host.policy.may_view(self.caller, entry.signature):
            return arguments  # the call says that there is no such function
        return arguments_from(entry.signature, kind, arguments)

    async def _answer(self, name: str, arguments: dict[str, Any], wrapped: bool) -> None:
        headers = self._headers
        trace, parent = trace_of(headers) if b"traceparent" in headers else _NO_TRACE
        call = self._host.call_json(
            name,
            arguments,
            caller=self.caller,
            timeout=timeout_of(headers),
            trace=trace,
            parent=parent,
            calls=self._calls,
        )
        try:  # one step by hand: most calls are done then, and need nobody to watch the connection
            pending = call.send(None)
        except StopIteration as done:
            result = done.value
        else:
            watch = Watch(self._receive)
            try:
                result = await resume(call, pending)
            except asyncio.CancelledError:
                watch.settle()
                return
            finally:
                watch.stop()
        body = b'{"result":%b}' % result if wrapped else result
        # what `respond` and `_own_headers` do, written out: this is the path that everything goes
        sent: HeaderList = [
            _JSON,
            (b"x-call-id", b"%016x" % self._calls[0].span),
            (b"content-length", b"%d" % len(body)),
        ]
        if self.origin is not None:
            sent += cors(self.origin)
        await self._send({"type": "http.response.start", "status": 200, "headers": sent})
        await self._send({"type": "http.response.body", "body": body})

    async def _answer_events(self, name: str, arguments: dict[str, Any]) -> None:
        headers = self._headers
        entry = self._host.catalog.get(name)
        event = b"item" if entry is not None and entry.signature.streaming else b"result"
        trace, parent = trace_of(headers)
        self._stream = stream = EventStream(self._send, self._own_headers)
        items = self._host.stream_json(
            name,
            arguments,
            caller=self.caller,
            timeout=timeout_of(headers),
            trace=trace,
            parent=parent,
            calls=self._calls,
        )
        watch = Watch(self._receive, beat=stream.beat, every=QUIET_SECONDS)
        try:
            async with aclosing(items):
                await stream.send_all(items, event)
        except asyncio.CancelledError:
            watch.settle()
        finally:
            watch.stop()

    async def fail(self, shown: str, error: EngineHostError) -> None:
        """Answer a call of the function ``shown`` with ``error``; one that was never made is recorded."""
        error = as_told(error, self.caller)
        if not self._calls:
            trace, parent = trace_of(self._headers)
            self._calls.append(
                self._host.refuse(shown, error, caller=self.caller, trace=trace, parent=parent)
            )
        call_id = self._calls[0].call_id
        if self._stream is not None and self._stream.started:
            await self._stream.fail(error, call_id)
        else:
            await refuse(self._send, error, self._own_headers(), call_id)

    def _own_headers(self) -> HeaderList:
        headers: HeaderList = [(b"x-call-id", b"%016x" % call.span) for call in self._calls]
        return headers if self.origin is None else headers + cors(self.origin)


def function_name(host: Host, shown: str, caller: Caller) -> str:
    """The function's name behind the one in a URL, which may be one that a kind of tools shows."""
    return shown if host.catalog.get(shown) is not None else host.resolve(shown, caller=caller)

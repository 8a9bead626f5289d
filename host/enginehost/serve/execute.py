"""One call over HTTP: arguments in, ``{"result": …}``, a plain result or events out. The hot path."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Send

from enginehost.admission import as_told
from enginehost.caller import Caller
from enginehost.drive import resume
from enginehost.engine import Call
from enginehost.errors import EngineHostError, Forbidden
from enginehost.json_arguments import read_object
from enginehost.serve.disconnect import Watch
from enginehost.serve.events import QUIET_SECONDS, EventStream
from enginehost.serve.for_models import for_model
from enginehost.serve.gate import cors
from enginehost.serve.problem import HeaderList, refuse
from enginehost.serve.protocol import answer_whole
from enginehost.serve.request import Headers, check_media, read_body, timeout_of, trace_of, wants_events
from enginehost.values import LARGE, aside

if TYPE_CHECKING:
    from enginehost.host import Host

_JSON = (b"content-type", b"application/json")
_HEAD = b"content-type: application/json\r\nx-call-id: %016x\r\ncontent-length: %d\r\n"


class Exchange:
    """One request whose caller is known, and its answer. ``origin``: the foreign page it is opened to."""

    __slots__ = (
        "_call",
        "_headers",
        "_host",
        "_large",
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
        self._large = False
        self._call: Call | None = None
        self._stream: EventStream | None = None

    async def run(self, shown: str, *, kind: str | None = None, wrapped: bool = True) -> None:
        """Call the function ``shown`` (a name, or a mapped one) and answer.

        ``kind``: the arguments are as a model sent them that was given tools of this kind. ``wrapped``:
        with ``{"result": …}`` around the result.
        """
        name = shown
        sent: dict[str, Any] = {}
        try:
            if self.caller.may_prove and not self.caller.authenticated:
                self._ask_for_proof(shown)
            headers = self._headers
            if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
                check_media(headers)
            body = await read_body(self._receive, headers, self._max_body_bytes)
            self._large = len(body) >= LARGE
            sent = arguments = await aside(read_object, body) if self._large else read_object(body)
            name = function_name(self._host, shown, self.caller)
            if kind is not None:
                arguments = await self._as_the_function_takes_them(name, kind, arguments)
            if wants_events(headers):
                await self._answer_events(name, arguments)
            else:
                await self._answer(name, arguments, wrapped)
        except EngineHostError as error:
            told = error if kind is None else for_model(self._host, error, kind, (name, shown), sent)
            await self.fail(shown, told)

    def _ask_for_proof(self, shown: str) -> None:
        """Refuse who showed no proof and needs one, before anything that was sent is looked at."""
        if self._host.accepting:
            entry = self._host.entry(function_name(self._host, shown, self.caller), self.caller)
            if not self._host.policy.may_call(self.caller, entry.signature):
                raise Forbidden("anonymous callers may not call that")

    async def _as_the_function_takes_them(
        self, name: str, kind: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        from enginehost.specs import arguments_from

        entry = self._host.visible(name, self.caller)
        if entry is None:
            return arguments  # the call says that there is no such function
        sent = entry.signature, kind, arguments
        return await aside(arguments_from, *sent) if self._large else arguments_from(*sent)

    async def _answer(self, name: str, arguments: dict[str, Any], wrapped: bool) -> None:
        headers = self._headers
        timeout = timeout_of(headers)
        self._call = call = self._host.new_call(name, self.caller, trace_of(headers))
        call.large = self._large
        if (proof := headers.get(b"authorization")) is not None:
            call.authorization = proof.decode("latin-1")
        work = self._host.call_json(call, arguments, timeout=timeout)
        try:  # one step by hand: most calls are done then, and need nobody to watch the connection
            pending = work.send(None)
        except StopIteration as done:
            result = done.value
        else:
            watch = Watch(self._receive)
            try:
                result = await resume(work, pending)
            except asyncio.CancelledError:
                watch.settle()
                return
            finally:
                watch.stop()
        body = b'{"result":%b}' % result if wrapped else result
        # what `respond` and `_own_headers` do, written out: this is the path that everything goes
        if self.origin is None and answer_whole(self._send, _HEAD % (call.span, len(body)), body):
            return
        sent: HeaderList = [
            _JSON,
            (b"x-call-id", b"%016x" % call.span),
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
        timeout = timeout_of(headers)
        self._stream = stream = EventStream(self._send, self._own_headers)
        self._call = call = self._host.new_call(name, self.caller, trace_of(headers))
        call.large = self._large
        if (proof := headers.get(b"authorization")) is not None:
            call.authorization = proof.decode("latin-1")
        items = self._host.stream_json(call, arguments, timeout=timeout)
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
        if self._call is None:
            self._call = self._host.new_call(shown, self.caller, trace_of(self._headers))
            self._host.refuse(self._call, error)
        call_id = self._call.call_id
        if self._stream is not None and self._stream.started:
            await self._stream.fail(error, call_id)
        else:
            await refuse(self._send, error, self._own_headers(), call_id)

    def _own_headers(self) -> HeaderList:
        headers: HeaderList = [(b"x-call-id", b"%016x" % self._call.span)] if self._call is not None else []
        return headers if self.origin is None else headers + cors(self.origin)


def function_name(host: Host, shown: str, caller: Caller) -> str:
    """The function's name behind the one in a URL, which may be one that a kind of tools shows."""
    return shown if host.visible(shown, caller) is not None else host.resolve(shown, caller=caller)

"""One request to ``/mcp`` and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from enginehost.admission import as_told
from enginehost.caller import Caller
from enginehost.drive import resume
from enginehost.errors import CallTimeout, EngineHostError, Forbidden, Unauthorized
from enginehost.serve.disconnect import Watch
from enginehost.serve.gate import cors
from enginehost.serve.mcp.changes import LISTS, Stream, listening, over
from enginehost.serve.mcp.face import LISTEN
from enginehost.serve.mcp.handshake import FIRST_LEVEL, Handshake
from enginehost.serve.mcp.messages import (
    Request,
    Response,
    check_envelope,
    check_headers,
    level_in,
    message_of,
    parsed,
    unsupported,
)
from enginehost.serve.mcp.oauth import challenge, scope_refusal
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.wire import (
    BATCHES,
    HANDSHAKE,
    HTTP_STATUS,
    INVALID_REQUEST,
    META_VERSION,
    MODERN,
    Fault,
    RequestId,
    answer,
    failure,
    request_of,
)
from enginehost.serve.problem import HeaderList, HttpRefusal, respond, status_of
from enginehost.serve.protocol import answer_whole
from enginehost.serve.request import Headers
from enginehost.values import LARGE, aside

if TYPE_CHECKING:
    from enginehost.serve.mcp.http import McpHttp

MOST_IN_A_BATCH = 100
QUIET_SECONDS = 15.0
"""A comment is sent after so long without an event: proxies close connections that look dead. As often it is
seen whether the proof with which a stream began still holds."""

_JSON = (b"content-type", b"application/json")
_HEAD = b"content-type: application/json\r\ncontent-length: %d\r\n"
_EVENTS: HeaderList = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_FIRST = frozenset({"initialize", "server/discover", "tools/list"})
"""Where a client that may need a token learns it."""


class Exchange:
    """One request over HTTP."""

    tags: frozenset[str] = frozenset()

    def __init__(
        self,
        http: McpHttp,
        scope: Scope,
        headers: Headers,
        caller: Caller,
        origin: bytes | None,
        receive: Receive,
        send: Send,
    ) -> None:
        self.caller = caller
        self._http, self._host, self._face = http, http.host, http.face
        self._scope, self._headers = scope, headers
        self._origin, self._receive, self._send = origin, receive, send
        self._begun = self._quiet = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def post(self, body: bytes) -> None:
        """Answer a message, or in the one revision that has them an array of messages."""
        request_id: RequestId | None = None
        version = self._headers.get(b"mcp-protocol-version", BATCHES.encode()).decode("latin-1")
        modern = version == MODERN
        try:
            found = await aside(parsed, body) if len(body) >= LARGE else parsed(body)
            if isinstance(found, list) and version == BATCHES:
                await self._batch(found, version)
                return
            message = message_of(found)
            if isinstance(message, Response) or message.id is None:
                await self._accept(message, version)
                return
            request_id = message.id
            modern = modern or META_VERSION in message.meta
            if modern:
                peer = self._modern_peer(message)
            else:
                peer = await self._old_peer(message, version)
            self._check_proof(message)
            if message.method == LISTEN and peer.modern:
                await self._listen(peer, message)
            elif message.method == "initialize" and not modern:
                await self._initialize(peer, message, message.id)
            else:
                await self._answer(peer, message, message.id)
        except (Fault, EngineHostError) as error:
            await self._fail(request_id, error, modern=modern)

    # Who asks

    def _modern_peer(self, message: Request) -> Peer:
        """Who asks, by what each request says. Raises :class:`Fault`."""
        check_headers(message, self._headers)
        capabilities = check_envelope(message)
        peer = Peer(self.caller, MODERN, self.tags, capabilities, self._proof(), headers=self._headers)
        if _takes_events(self._headers):
            peer.level = level_in(message)
            if peer.level or message.progress_token is not None:
                peer.notify = self._event
        return peer

    async def _old_peer(self, message: Request, version: str) -> Peer:
        """Who asks, by its handshake. Raises :class:`Fault`, and ``HttpRefusal`` for one that is over."""
        if version not in HANDSHAKE:
            raise unsupported(version)
        peer = Peer(self.caller, version, self.tags, authorization=self._proof())
        handshake = await self._handshake() if message.method != "initialize" else None
        if handshake is not None:
            peer.handshake, peer.capabilities = handshake, handshake.capabilities
        if _takes_events(self._headers):
            peer.notify = self._event
            peer.level = handshake.level if handshake is not None else FIRST_LEVEL
            if handshake is not None:
                peer.ask = partial(self._ask, handshake)
        return peer

    async def _handshake(self) -> Handshake | None:
        session = self._headers.get(b"mcp-session-id")
        if session is None:
            return None
        found = await self._http.handshakes.of(session.decode("latin-1"), self.caller)
        if found is None:
            raise HttpRefusal(404, "there is no such session: begin with initialize")
        return found

    def _proof(self) -> str:
        return self._headers.get(b"authorization", b"").decode("latin-1")

    def _check_proof(self, message: Request) -> None:
        """Ask who could show a proof for one, where it sees nothing without."""
        caller = self.caller
        asks = caller.may_prove and not caller.authenticated and message.method in _FIRST
        if asks and not self._host.functions(caller, self.tags):
            raise Unauthorized("nothing here is for anonymous callers; send Authorization: Bearer TOKEN")

    # Messages

    async def _accept(self, message: Request | Response, version: str) -> None:
        """Take an answer to a question of ours, or a notification."""
        if version != MODERN and version not in HANDSHAKE:
            raise unsupported(version)
        handshake = await self._handshake() if version != MODERN else None
        if handshake is not None:
            self._heard(handshake, message)
        await respond(self._send, 202, self._with_cors([]), b"")

    def _heard(self, handshake: Handshake, message: Request | Response) -> None:
        if isinstance(message, Response):
            self._http.answered(handshake.id, message)
        elif message.method == "notifications/cancelled":
            wanted: Any = message.params.get("requestId")
            running = (
                self._http.running.get((handshake.id, wanted)) if isinstance(wanted, str | int) else None
            )
            if running is not None:
                running.cancel()

    async def _batch(self, messages: list[Any], version: str) -> None:
        if not 0 < len(messages) <= MOST_IN_A_BATCH:
            raise Fault(INVALID_REQUEST, f"an array has 1 to {MOST_IN_A_BATCH} messages")
        answers: list[bytes] = []
        for found in messages:
            request_id: RequestId | None = None
            try:
                message = message_of(found)
                if isinstance(message, Response) or message.id is None:
                    handshake = await self._handshake()
                    if handshake is not None:
                        self._heard(handshake, message)
                    continue
                request_id = message.id
                if message.method == "initialize":
                    raise Fault(INVALID_REQUEST, "initialize comes alone")
                peer = await self._old_peer(message, version)
                peer.notify = peer.ask = None
                self._check_proof(message)
                answers.append(answer(request_id, await self._face.result(peer, message)))
            except HttpRefusal:
                raise
            except (Fault, EngineHostError) as error:
                answers.append(failure(request_id, self._fault(error)))
        if answers:
            await respond(self._send, 200, self._with_cors([_JSON]), b"[%b]" % b",".join(answers))
        else:
            await respond(self._send, 202, self._with_cors([]), b"")

    async def _initialize(self, peer: Peer, message: Request, request_id: RequestId) -> None:
        body = answer(request_id, await self._face.result(peer, message))
        session = await self._http.handshakes.begin(self.caller, peer.capabilities)
        headers = self._with_cors([_JSON, (b"mcp-session-id", session.encode())])
        await respond(self._send, 200, headers, body)

    async def _answer(self, peer: Peer, message: Request, request_id: RequestId) -> None:
        work = self._face.result(peer, message)
        try:  # one step by hand: most calls are done then, and need nobody to watch the connection
            pending = work.send(None)
        except StopIteration as done:
            result = done.value
        else:
            key = (peer.handshake.id, request_id) if peer.handshake is not None else None
            if key is not None:
                self._task = asyncio.current_task()
                self._http.running.setdefault(key, self)
            watch = Watch(self._receive, beat=self._beat, every=QUIET_SECONDS)
            try:
                result = await resume(work, pending)
            except asyncio.CancelledError:
                if self._cancelled:
                    await self._end_unanswered()
                    return
                watch.settle()
                return
            finally:
                watch.stop()
                if key is not None and self._http.running.get(key) is self:
                    del self._http.running[key]
        await self._whole(answer(request_id, result))

    def cancel(self) -> None:
        """End the request: its client wants no answer any more."""
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    async def _end_unanswered(self) -> None:
        if self._task is not None:
            self._task.uncancel()
        if not self._begun:
            start = {"type": "http.response.start", "status": 200, "headers": self._with_cors([*_EVENTS])}
            await self._send(start)
        await self._send({"type": "http.response.body", "body": b""})

    async def _ask(self, handshake: Handshake, method: str, params: Mapping[str, Any]) -> Any:
        """Ask the client on the stream of its request, and wait for the POST with its answer."""
        name, future = self._http.question(handshake.id)
        seconds = self._host.settings.mcp.answer_seconds
        try:
            await self._event(request_of(name, method, params))
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise CallTimeout("the client", seconds, "it was asked something") from None
        finally:
            self._http.forget(name)

    async def _whole(self, body: bytes, status: int = 200) -> None:
        """Send the answer: as JSON, or as the last event where there were others."""
        if self._begun:
            await self._event(body)
            await self._send({"type": "http.response.body", "body": b""})
        elif not (
            status == 200 and self._origin is None and answer_whole(self._send, _HEAD % len(body), body)
        ):
            await respond(self._send, status, self._with_cors([_JSON]), body)

    async def _fail(
        self, request_id: RequestId | None, error: Fault | EngineHostError, *, modern: bool
    ) -> None:
        told = as_told(error, self.caller) if isinstance(error, EngineHostError) else error
        scheme: str = self._scope["scheme"]
        if not self._begun and isinstance(told, Unauthorized):
            told.challenge = challenge(self._host, scheme, self._headers)
            raise told
        if not self._begun and isinstance(told, HttpRefusal):
            raise told
        if not self._begun and isinstance(told, Forbidden) and self._host.settings.authenticates:
            raise scope_refusal(self._host, scheme, self._headers, told)
        fault = self._fault(told)
        if isinstance(told, Fault):
            status = HTTP_STATUS.get(fault.code, 200) if modern or request_id is None else 200
        else:
            status = status_of(told) if request_id is None else 200
        await self._whole(failure(request_id, fault), status)

    def _fault(self, error: Fault | EngineHostError) -> Fault:
        if isinstance(error, Fault):
            return error
        error = as_told(error, self.caller)
        return Fault(error.row.jsonrpc, error.message, error.to_json())

    # Events

    async def _event(self, message: bytes) -> None:
        self._quiet = False
        await self._write(b"event: message\ndata: %b\n\n" % message)

    async def _beat(self) -> None:
        """A sign of life, once something has been sent."""
        if self._begun and self._quiet:
            await self._write(b": still running\n\n")
        self._quiet = True

    async def _look(self) -> None:
        """End a stream whose client's proof holds no more; else give a sign of life."""
        if await self._http.still_holds(self._proof()):
            await self._beat()
        else:
            self.cancel()

    async def _write(self, chunk: bytes) -> None:
        if not self._begun:
            self._begun = True
            start = {"type": "http.response.start", "status": 200, "headers": self._with_cors([*_EVENTS])}
            await self._send(start)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _listen(self, peer: Peer, message: Request) -> None:
        """``subscriptions/listen``: its answer is the stream."""
        if not _takes_events(self._headers):
            raise HttpRefusal(406, "this is answered with events: send Accept: text/event-stream")
        if await self._tell(listening(self._face.news, peer, message)) and message.id is not None:
            await self._whole(answer(message.id, over(message)))

    async def follow(self) -> None:
        """The stream of a GET, in the revisions with a handshake: what changes."""
        handshake = await self._handshake()
        peer = Peer(self.caller, HANDSHAKE[0], self.tags, handshake=handshake)
        stream = Stream(self._face.news, peer)
        try:
            await self._write(b": what changes in this host\n\n")
            if handshake is None:
                messages = stream.messages(LISTS, ())
            else:
                messages = stream.messages(LISTS, handshake.subscriptions, handshake.heard_by)
            if await self._tell(messages):
                await self._send({"type": "http.response.body", "body": b""})
        finally:
            stream.close()

    async def _tell(self, messages: AsyncGenerator[bytes, None]) -> bool:
        """Send messages until they end, or nobody is there; whether somebody still listens."""
        self._task = asyncio.current_task()
        watch = Watch(self._receive, beat=self._look, every=QUIET_SECONDS)
        try:
            async with aclosing(messages):
                async for message in messages:
                    await self._event(message)
        except asyncio.CancelledError:
            if self._cancelled:
                await self._end_unanswered()
                return False
            if not watch.gone:
                raise
            watch.settle()
            return False
        finally:
            watch.stop()
        return True

    def _with_cors(self, headers: HeaderList) -> HeaderList:
        return headers if self._origin is None else headers + cors(self._origin)


def _accepts(headers: Headers, media: bytes) -> bool:
    accept = headers.get(b"accept")
    return accept is None or media in accept.lower() or b"*/*" in accept


def _takes_events(headers: Headers) -> bool:
    return b"accept" in headers and _accepts(headers, b"text/event-stream")

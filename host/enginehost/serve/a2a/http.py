"""A2A over HTTP: ``/a2a/{agent}`` is JSON-RPC, and what stands below it the HTTP+JSON binding and the card.

Who may call an agent's function may send it messages. A task is its owner's alone: to everybody else it
answers as one that there is not.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from starlette.types import Receive, Scope, Send

from enginehost.caller import Caller
from enginehost.errors import EngineHostError, Forbidden, Unauthorized, UnknownFunction
from enginehost.json_arguments import read_object
from enginehost.serve.a2a.card import card_of
from enginehost.serve.a2a.faults import (
    CONTENT_TYPE,
    METHOD_NOT_FOUND,
    NO_PUSH,
    UNSUPPORTED,
    VERSION,
    A2aFault,
    rest_error,
)
from enginehost.serve.a2a.jsonrpc import METHODS, STREAMS, Malformed, answered, enveloped, failed, request_in
from enginehost.serve.a2a.rest import WITH_BODY, asked_by, prefers_plain, query_params
from enginehost.serve.a2a.streaming import send_updates
from enginehost.serve.a2a.tasks import Tasks
from enginehost.serve.a2a.wire import A2A_JSON, JSON, OLDER, VERSION_HEADER
from enginehost.serve.a2a.wire import VERSION as SPOKEN
from enginehost.serve.problem import HeaderList, HttpRefusal, respond
from enginehost.serve.request import Headers, read_body
from enginehost.serve.sessions.access import agent_named, agents_of
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

PREFIX = "/a2a/"
WELL_KNOWN = ".well-known/agent-card.json"
_FRESH = b"public, max-age=60"
_TAKEN = frozenset({JSON, A2A_JSON})
_MOST_CARDS = 1000


class A2aHttp:
    """Answers what comes to ``/a2a/…``, and the card at the root."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._most = int(host.settings.http.max_body_bytes)
        self._changed: dict[bytes, float] = {}
        """When a card, known by its ETag, was first given."""

    async def __call__(
        self,
        scope: Scope,
        headers: Headers,
        caller: Caller,
        origin_headers: HeaderList,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one request of ``caller``, who came through the face ``a2a``."""
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        shown, _, rest = path[len(PREFIX) :].partition("/")
        name, method = unquote(shown), scope["method"]
        if rest == WELL_KNOWN:
            if method not in ("GET", "HEAD"):
                raise HttpRefusal(405, "this path takes GET", {"Allow": "GET"})
            await self._card(name, scope, headers, caller, origin_headers, send)
        elif rest:
            await self._rest(name, rest, scope, headers, caller, origin_headers, receive, send)
        elif method == "POST":
            await self._jsonrpc(name, headers, caller, origin_headers, receive, send)
        else:
            raise HttpRefusal(405, "this path takes POST; the card is below it", {"Allow": "POST"})

    # The card

    async def root_card(
        self, scope: Scope, headers: Headers, caller: Caller, more: HeaderList, send: Send
    ) -> None:
        """The card of the one agent here, or of the one that is to answer where nobody chose."""
        from enginehost.serve.agents.seen import agents_seen, is_own

        own = [agent for agent in agents_seen(self.host, caller) if is_own(self.host, agent)]
        chosen = own if len(own) == 1 else [agent for agent in own if agent.default_capable]
        if len(chosen) != 1:
            names = ", ".join(f"{PREFIX}{quote(agent.name, safe='')}/{WELL_KNOWN}" for agent in own[:20])
            raise HttpRefusal(404, f"there is no one agent here; {names or 'none'}")
        await self._card(chosen[0].name, scope, headers, caller, more, send)

    async def _card(
        self, shown: str, scope: Scope, headers: Headers, caller: Caller, more: HeaderList, send: Send
    ) -> None:
        name = self._own_agent(shown, caller)
        body = write(card_of(self.host, name, f"{self._base(scope, headers)}{PREFIX}{quote(name, safe='')}"))
        etag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
        if len(self._changed) > _MOST_CARDS:
            self._changed.clear()
        since = self._changed.setdefault(etag, time.time())
        told: HeaderList = [
            (b"cache-control", _FRESH),
            (b"etag", etag),
            (b"last-modified", formatdate(since, usegmt=True).encode()),
            (b"vary", b"authorization, host"),
            *more,
        ]
        if etag in headers.get(b"if-none-match", b""):
            await respond(send, 304, told, b"")
            return
        body = b"" if scope["method"] == "HEAD" else body
        await respond(send, 200, [(b"content-type", JSON.encode()), *told], body)

    def _own_agent(self, shown: str, caller: Caller) -> str:
        entry = self.host.visible(shown, caller)
        if entry is None or entry.signature.name not in self.host.agent_specs():
            raise UnknownFunction(shown)
        return entry.signature.name

    def _base(self, scope: Scope, headers: Headers) -> str:
        public = self.host.settings.http.public_url
        if public is not None:
            return public.rstrip("/")
        return f"{scope['scheme']}://{headers.get(b'host', b'localhost').decode('latin-1')}"

    # JSON-RPC

    async def _jsonrpc(
        self,
        name: str,
        headers: Headers,
        caller: Caller,
        more: HeaderList,
        receive: Receive,
        send: Send,
    ) -> None:
        told: HeaderList = [(b"content-type", JSON.encode()), *more]
        try:
            check_type(headers)
        except A2aFault as fault:
            await respond(send, 415, told, failed(None, fault))
            return
        body = await read_body(receive, headers, self._most)
        try:
            request = request_in(body)
        except Malformed as malformed:
            await respond(send, 200, told, malformed.body)
            return
        try:
            check_version(headers)
            if request.method not in METHODS:
                raise A2aFault(METHOD_NOT_FOUND, f"there is no method {request.method[:100]}")
            tasks = await self._tasks(name, caller)
            if request.method in STREAMS:
                updates = enveloped(request.id, _streamed(tasks, request.method, request.params))
                await send_updates(updates, lambda error: failed(request.id, error), receive, send, more)
                return
            answer = answered(request.id, await _asked(tasks, request.method, request.params))
        except (Unauthorized, Forbidden, UnknownFunction):
            raise  # these are HTTP's to tell, before the protocol
        except EngineHostError as error:
            answer = failed(request.id, error)
        await respond(send, 200, told, answer)

    # HTTP+JSON

    async def _rest(
        self,
        name: str,
        rest: str,
        scope: Scope,
        headers: Headers,
        caller: Caller,
        more: HeaderList,
        receive: Receive,
        send: Send,
    ) -> None:
        asked = asked_by(rest, scope["method"])
        media = JSON if prefers_plain(headers.get(b"accept", b"")) else A2A_JSON
        told: HeaderList = [(b"content-type", media.encode()), *more]
        try:
            check_version(headers)
            params = query_params(scope["query_string"]) | asked.params
            if asked.operation in WITH_BODY:
                check_type(headers)
                found = read_object(await read_body(receive, headers, self._most))
                params = {**cast("Mapping[str, Any]", found), **asked.params}
            tasks = await self._tasks(name, caller)
            if asked.operation in STREAMS:
                updates = _written(_streamed(tasks, asked.operation, params))
                await send_updates(updates, lambda error: write(rest_error(error)[1]), receive, send, more)
                return
            status, answer = 200, await _asked(tasks, asked.operation, params)
        except (Unauthorized, Forbidden, UnknownFunction):
            raise
        except EngineHostError as error:
            status, answer = rest_error(error)
            if isinstance(error, A2aFault) and error.kind is CONTENT_TYPE and "Content-Type" in error.message:
                status = 415
        await respond(send, status, told, write(answer))

    async def _tasks(self, shown: str, caller: Caller) -> Tasks:
        """Raises ``Unauthorized``, ``Forbidden``, ``UnknownFunction``, ``EngineUnavailable``."""
        if caller.may_prove and not caller.authenticated:
            raise Unauthorized("agents need a proof here: send Authorization: Bearer TOKEN")
        self._own_agent(shown, caller)
        agents = await agents_of(self.host)
        return Tasks(self.host, agents, agent_named(self.host, agents, shown, caller), caller)


def check_version(headers: Headers) -> None:
    """Raises the fault for a version that is not spoken here; what names none speaks 0.3 (section 3.6)."""
    given = headers.get(VERSION_HEADER, b"").decode("latin-1").strip() or OLDER
    if ".".join(given.split(".")[:2]) != SPOKEN:
        detail = {"supported": [SPOKEN]}
        raise A2aFault(
            VERSION, f"version {given[:20]} is not spoken here: send A2A-Version: 1.0", detail=detail
        )


def check_type(headers: Headers) -> None:
    """Raises the fault for a body that is not JSON, or encoded."""
    media = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if media not in _TAKEN or headers.get(b"content-encoding", b"identity") != b"identity":
        raise A2aFault(CONTENT_TYPE, f"the body must be sent as Content-Type: {JSON} or {A2A_JSON}")


async def _asked(tasks: Tasks, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    match operation:
        case "SendMessage":
            return await tasks.send(params)
        case "GetTask":
            return await tasks.get(params)
        case "ListTasks":
            return await tasks.list(params)
        case "CancelTask":
            return await tasks.cancel(params)
        case "GetExtendedAgentCard":
            raise A2aFault(UNSUPPORTED, "this agent has one card for all: see its agent-card.json")
        case _:
            raise A2aFault(NO_PUSH, "this agent sends no push notifications; subscribe to the task")


async def _streamed(
    tasks: Tasks, operation: str, params: Mapping[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    updates = tasks.stream(params) if operation == "SendStreamingMessage" else tasks.subscribe(params)
    async with aclosing(updates):
        async for update in updates:
            yield update


async def _written(updates: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(updates):
        async for update in updates:
            yield write(update)

"""``GET /v1/models``, ``GET /v1/models/{id}`` and ``POST /v1/chat/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from enginehost.caller import LOCAL, Caller
from enginehost.errors import EngineHostError, Forbidden, InvalidRequest, OutcomeUnknown, Unauthorized
from enginehost.json_arguments import read_object
from enginehost.llm.message import Message
from enginehost.policy import CALL, VIEW
from enginehost.serve.disconnect import Watch
from enginehost.serve.events import QUIET_SECONDS
from enginehost.serve.openai.agents import answered
from enginehost.serve.openai.answers import chunks, completion
from enginehost.serve.openai.asked import Asked, asked_in
from enginehost.serve.openai.faults import error_body, error_headers, unknown_model
from enginehost.serve.problem import HeaderList, respond, status_of
from enginehost.serve.request import check_media, read_body
from enginehost.serve.sessions.access import agents_of
from enginehost.signature import FunctionSignature
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

_EVENTS: HeaderList = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def openai_routes(host: Host) -> list[BaseRoute]:
    """The routes."""
    models = Models(host)
    return [
        Route("/v1/models", models.list, methods=["GET"]),
        Route("/v1/models/{id:path}", models.one, methods=["GET"]),
        Route("/v1/chat/completions", ChatCompletions(models), methods=["POST"]),
    ]


class Models:
    """The agents of this host and its model engines, for one caller. An agent goes before an engine.

    The policy is asked about a model engine as about a function of its name.
    """

    def __init__(self, host: Host) -> None:
        self.host = host

    def named(self, caller: Caller) -> dict[str, str]:
        """Who answers by which name: ``agent`` or ``model``."""
        host = self.host
        found = {one.name: "model" for one in host.models() if self.rights(one.name, caller) & VIEW}
        agents = {name: "agent" for name in host.agent_specs() if host.visible(name, caller) is not None}
        return dict(sorted({**found, **agents}.items()))

    def rights(self, name: str, caller: Caller) -> int:
        """What the caller may do with a model engine."""
        if caller is LOCAL:
            return VIEW | CALL
        return self.host.policy.rights(caller, FunctionSignature(name))

    async def list(self, request: Request) -> Response:
        """Those that the caller may view."""
        caller: Caller = request.scope["enginehost"].caller
        data = [_model(name, kind) for name, kind in self.named(caller).items()]
        return Response(write({"object": "list", "data": data}), media_type="application/json")

    async def one(self, request: Request) -> Response:
        """One of them."""
        try:
            caller: Caller = request.scope["enginehost"].caller
            name, named = request.path_params["id"], self.named(caller)
            if name not in named:
                raise unknown_model(name)
        except InvalidRequest as error:
            headers = {key.decode(): value.decode() for key, value in error_headers(error)}
            return Response(error_body(error), status_of(error), headers)
        return Response(write(_model(name, named[name])), media_type="application/json")

    async def pieces(self, asked: Asked, caller: Caller) -> AsyncGenerator[Message, None]:
        """The answer's pieces. Raises ``HttpRefusal`` where there is no such model, and ``Forbidden``."""
        host, named = self.host, self.named(caller)
        kind = named.get(asked.model)
        if kind is None:
            raise unknown_model(asked.model)
        if kind == "model":
            if not self.rights(asked.model, caller) & CALL:
                raise Forbidden(f"{caller.subject} may not use the model {asked.model}")
            source = host.llm(asked.model).send(list(asked.rows), stream=True, **asked.options)
        else:
            entry = host.entry(asked.model, caller)
            if caller is not LOCAL and not host.policy.may_call(caller, entry.signature):
                raise Forbidden(f"{caller.subject} may not call {asked.model}")
            source = answered(await agents_of(host), entry.signature.name, asked, caller)
        async with aclosing(source):
            async for message in source:
                yield message


class ChatCompletions:
    """``POST /v1/chat/completions`` as an ASGI application."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._most = int(models.host.settings.http.max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request, headers = Request(scope, receive), dict(scope["headers"])
        try:
            caller = _proven(request)
            check_media(headers)
            asked = asked_in(read_object(await read_body(receive, headers, self._most)))
        except EngineHostError as error:
            await respond(send, status_of(error), error_headers(error), error_body(error))
            return
        pieces = self._models.pieces(asked, caller)
        if asked.stream:
            await _stream(chunks(asked.model, pieces, usage=asked.usage), receive, send)
        else:
            await _whole(completion(asked.model, pieces), receive, send)


async def _whole(answer: Any, receive: Receive, send: Send) -> None:
    watch = Watch(receive)
    try:
        body = await answer
    except asyncio.CancelledError:
        watch.settle()
        return
    except EngineHostError as error:
        await respond(send, status_of(error), error_headers(error), error_body(error))
        return
    finally:
        watch.stop()
    await respond(send, 200, [(b"content-type", b"application/json")], body)


async def _stream(events: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    """Send each event as it comes; an error after the first is the last event, and no ``[DONE]`` follows."""
    started = False

    async def put(chunk: bytes) -> None:
        nonlocal started
        if not started:
            started = True
            await send({"type": "http.response.start", "status": 200, "headers": list(_EVENTS)})
        await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def beat() -> None:
        if started:
            await put(b": still here\n\n")

    watch = Watch(receive, beat=beat, every=QUIET_SECONDS)
    try:
        async with aclosing(events):
            async for event in events:
                await put(event)
    except asyncio.CancelledError:
        try:
            watch.settle()
        except OutcomeUnknown as error:
            if not started:
                raise
            await put(b"data: %b\n\n" % error_body(error))
    except EngineHostError as error:
        if not started:
            await respond(send, status_of(error), error_headers(error), error_body(error))
            return
        await put(b"data: %b\n\n" % error_body(error))
    finally:
        watch.stop()
    if started:
        await send({"type": "http.response.body", "body": b""})


def _proven(request: Request) -> Caller:
    """Who asks. Raises :class:`Unauthorized` for who could show a proof and showed none."""
    caller: Caller = request.scope["enginehost"].caller
    if caller.may_prove and not caller.authenticated:
        raise Unauthorized("models need a proof here: send Authorization: Bearer TOKEN")
    return caller


def _model(name: str, kind: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": f"enginehost-{kind}"}

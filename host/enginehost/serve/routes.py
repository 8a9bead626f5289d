"""The routes beside the hot path: lists, descriptions, tools, SEMOSS's paths, OpenAPI, docs, operation."""

from __future__ import annotations

import asyncio
from base64 import b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from enginehost.caller import Caller
from enginehost.catalog import Entry
from enginehost.engine import EngineState
from enginehost.errors import (
    EngineHostError,
    EngineUnavailable,
    InvalidRequest,
    Unauthorized,
    UnknownFunction,
)
from enginehost.serve import views
from enginehost.serve.agents import agent_routes
from enginehost.serve.disclosure import Reader
from enginehost.serve.docs import docs_routes
from enginehost.serve.execute import Exchange, function_name
from enginehost.serve.mcp import mcp_routes
from enginehost.serve.openai import openai_routes
from enginehost.serve.openapi import OpenApi
from enginehost.serve.sessions import session_routes
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

DEFAULT_PAGE, LARGEST_PAGE = 100, 1000
"""Functions in one answer of ``GET /v1/functions``."""


class Routes:
    """The handlers of ``host``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._openapi = OpenApi(host)

    def all(self) -> list[BaseRoute]:
        """Every route, those of the docs page too unless it is switched off."""
        routes: list[BaseRoute] = [
            Route("/healthz", self.health),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/v1/functions", self.functions),
            Route("/v1/functions/{name:path}", self.function),
            Route("/v1/tools", self.tools),
            Route("/v1/engines", self.engines),
            Route("/v1/network", self.network),
            Route("/api/function-{engine_id:path}/definition", self.definition),
            Route("/api/function-{engine_id:path}/execute", _SemossExecute(self), methods=["POST"]),
            Route("/openapi.json", self.openapi),
            *session_routes(self._host),
            *agent_routes(self._host),
            *mcp_routes(self._host),
            *openai_routes(self._host),
        ]
        return routes + docs_routes() if self._host.settings.http.docs else routes

    async def functions(self, request: Request) -> Response:
        """A page of the functions that the caller may view, sorted by name."""
        query = request.query_params
        entries = self._host.functions(_exchange(request).caller, _tags(request))
        if wanted := query.get("q", "").casefold():
            entries = [entry for entry in entries if _mentions(entry, wanted)]
        limit, after = _limit(query.get("limit")), _after(query.get("cursor"))
        rest = [entry for entry in entries if entry.name > after] if after else entries
        page = rest[:limit]
        answer: dict[str, Any] = {
            "functions": [views.summary(entry) for entry in page],
            "total": len(entries),
        }
        if len(rest) > limit:
            answer["next_cursor"] = urlsafe_b64encode(page[-1].name.encode()).decode()
        return _json(answer)

    async def function(self, request: Request) -> Response:
        """The description of a function, or its spec of the kind ``?format=``."""
        caller = _exchange(request).caller
        name = function_name(self._host, request.path_params["name"], caller)
        entry = self._host.entry(name, caller)
        from enginehost.specs import spec_kinds, to_spec

        if kind := request.query_params.get("format"):
            face = self._host.face_names(kind).to_face(name)
            return _json(to_spec(entry.signature, kind, name=face))
        return _json(views.description(self._host, entry, _exchange(request).caller, spec_kinds()))

    async def tools(self, request: Request) -> Response:
        """The functions as a list of tools of the kind ``?format=`` (default ``openai``).

        With ``?query=`` those that fit it and may be called, the best first; with ``?most=`` no more.
        """
        asked = request.query_params
        kind = asked.get("format", "openai")
        if "query" in asked or "most" in asked:
            most = _limit(asked["most"], "most") if "most" in asked else None
            caller, tags = _exchange(request).caller, _tags(request)
            query = asked.get("query", "")
            return _json(await self._host.tools_for_model(query, kind, caller=caller, tags=tags, most=most))
        return _json(self._host.tools(kind, caller=_exchange(request).caller, tags=_tags(request)))

    async def engines(self, request: Request) -> Response:
        """The engines with their states, and what is wrong with the host as a whole."""
        caller = _exchange(request).caller
        found = {"engines": views.engines(self._host, caller)}
        return _json(found | {"problems": views.problems(self._host, caller)})

    async def network(self, request: Request) -> Response:
        """Who there is and who called whom, as far as the caller may view it."""
        from enginehost.serve.network import picture

        return _json(picture(self._host, _exchange(request).caller))

    async def definition(self, request: Request) -> Response:
        """SEMOSS's definition of the function of an engine."""
        return _json(views.semoss_definition(self.only_function(request).signature))

    def only_function(self, request: Request) -> Entry:
        """The function of the engine in a SEMOSS path, where an engine is one function.

        Of an engine with several, ``?function=`` chooses. Raises :class:`UnknownFunction` for an engine of
        which the caller may view nothing, and ``EngineUnavailable`` for one that cannot serve.
        """
        engine_id, chosen = request.path_params["engine_id"], request.query_params.get("function")
        caller, catalog = _exchange(request).caller, self._host.catalog
        there = [
            entry
            for entry in catalog.entries_of(engine_id)
            if catalog.get(entry.name) is entry and self._host.policy.may_view(caller, entry.signature)
        ]
        if not there:
            self._explain_absence(engine_id, caller)
            raise UnknownFunction(engine_id, nearest=self._nearest_ids(engine_id, caller), engine=True)
        visible = [entry for entry in there if chosen in (None, entry.name)]
        if not visible:
            raise UnknownFunction(chosen or "", nearest=[entry.name for entry in there][:3])
        if len(visible) > 1:
            names = [entry.name for entry in visible]
            raise InvalidRequest(
                f"engine {engine_id} has several functions; choose one with ?function=NAME",
                detail={"functions": names},
            )
        return visible[0]

    def _nearest_ids(self, engine_id: str, caller: Caller) -> list[str]:
        """The ids of engines with functions of such names: the one is easily taken for the other."""
        catalog, policy = self._host.catalog, self._host.policy
        names = catalog.nearest(engine_id, lambda entry: policy.may_view(caller, entry.signature))
        entries = filter(None, map(catalog.get, names))
        return list(dict.fromkeys(entry.record.engine_id for entry in entries))

    def _explain_absence(self, engine_id: str, caller: Caller) -> None:
        record = self._host.catalog.records.get(engine_id)
        declared = record.declared if record is not None else None
        if record is None or declared is None or not self._host.policy.may_view(caller, declared):
            return
        if record.state is EngineState.CONFLICT:
            reason = Reader(self._host, caller).reason(record)
            text = f"engine {engine_id} cannot be called: {reason}"
            raise EngineUnavailable(text, state=str(record.state), reason=reason)
        self._host.entry(declared.name, caller)

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document of what the caller may view; of all routes with ``?routes=all``."""
        routes = request.query_params.get("routes")
        if routes not in (None, "all"):
            raise InvalidRequest("routes must be all, or left out")
        caller = _exchange(request).caller
        body = await self._openapi.document(caller, _tags(request), routes=routes is not None)
        return Response(body, media_type="application/json")

    async def health(self, request: Request) -> Response:
        """The process answers."""
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Whether calls are welcome: 503 while engines load at the start, and from the stop on."""
        status = "draining" if not self._host.accepting else "ready" if self._host.ready else "loading"
        return _json({"status": status}, 200 if status == "ready" else 503)

    async def metrics(self, request: Request) -> Response:
        """Prometheus metrics, with rows for the functions that the caller may view."""
        settings = self._host.settings
        open_to_all = settings.http.public_metrics or not settings.authenticates
        caller = _exchange(request).caller
        if not (open_to_all or caller.authenticated):
            raise Unauthorized("metrics need a token here (setting http.public_metrics)")
        body = await asyncio.to_thread(self._host.metrics, caller)
        return Response(body, media_type="text/plain; version=0.0.4")


class _SemossExecute:
    """``POST /api/function-{id}/execute``: the arguments in, the plain result out."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        exchange = _exchange(request)
        try:
            name = self._routes.only_function(request).name
        except EngineHostError as error:
            await exchange.fail(request.path_params["engine_id"], error)
        else:
            await exchange.run(name, wrapped=False)


def _exchange(request: Request) -> Exchange:
    return request.scope["enginehost"]


def _json(value: Any, status: int = 200) -> Response:
    return Response(write(value), status, media_type="application/json")


def _tags(request: Request) -> list[str]:
    given = request.query_params.getlist("tags")
    return [tag for part in given for tag in part.split(",") if tag]


def _mentions(entry: Entry, wanted: str) -> bool:
    signature = entry.signature
    return wanted in signature.name.casefold() or wanted in signature.description.casefold()


def _limit(text: str | None, name: str = "limit") -> int:
    if text is None:
        return DEFAULT_PAGE
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= LARGEST_PAGE):
        raise InvalidRequest(f"{name} must be a number from 1 to {LARGEST_PAGE}")
    return int(text)


def _after(cursor: str | None) -> str:
    try:
        return b64decode(cursor or "", b"-_", validate=True).decode()
    except ValueError:
        raise InvalidRequest("cursor must be a next_cursor of an earlier answer") from None

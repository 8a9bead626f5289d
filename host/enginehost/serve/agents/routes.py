"""The routes of ``/v1/agents…``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from enginehost.genesis.routing import Router
from enginehost.serve.agents.follow import AgentEvents
from enginehost.serve.agents.messages import Messages
from enginehost.serve.agents.seen import agent_json, agents_seen
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host


def agent_routes(host: Host) -> list[BaseRoute]:
    """The routes of agents."""
    messages = Messages(host, Router())

    async def agents(request: Request) -> Response:
        """The agents that the caller may view."""
        found = agents_seen(host, request.scope["enginehost"].caller)
        body = write({"agents": [agent_json(host, agent) for agent in found]})
        return Response(body, media_type="application/json")

    return [
        Route("/v1/agents", agents, methods=["GET"]),
        Route("/v1/agents/events", AgentEvents(host), methods=["GET"]),
        Route("/v1/agents/messages", messages, methods=["POST"]),
        Route("/v1/agents/{name:path}/messages", messages, methods=["POST"]),
    ]

"""Genesis's names for interfaces."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from enginehost.databus import BusAgent
from enginehost.errors import ERROR_TABLE, EngineHostError
from enginehost.genesis.interface import Interface

Discovered = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]
Departed = Callable[[str], Coroutine[Any, Any, None]]

CONNECT_SECONDS = 30.0
"""How long :meth:`GenesisInterface.connect_to_agent` waits where nobody says it."""


class GenesisInterface:
    """An interface, as Genesis's programs write one.

    It joins the databus when it is first used, or, where an event loop runs, when it is made. ``domain_id``
    is the databus domain, by default what the settings say.
    """

    def __init__(
        self, interface_name: str = "interface", service_name: str = "", domain_id: int | None = None
    ) -> None:
        options: dict[str, Any] = {} if domain_id is None else {"domain": domain_id}
        self.interface_name = interface_name
        self.service_name = service_name
        self._interface = Interface(interface_name, **options)
        self._chosen: BusAgent | None = None
        self._joined: asyncio.Task[Any] | None = None
        with suppress(RuntimeError):  # no loop runs
            self._join()

    @property
    def available_agents(self) -> dict[str, dict[str, Any]]:
        """The agents that are there now, by their ids."""
        if self._joined is None or not self._joined.done():
            return {}
        return {agent.id: _info(agent) for agent in self._interface.agents}

    def get_available_agents(self) -> dict[str, dict[str, Any]]:
        """:attr:`available_agents`."""
        return self.available_agents

    async def connect_to_agent(self, service_name: str, timeout_seconds: float | None = None) -> bool:
        """Choose the agent to which requests go, by its service, name or id; whether there is one in time."""
        await self._ready()
        try:
            self._chosen = await self._interface.wait_for(
                service_name, CONNECT_SECONDS if timeout_seconds is None else timeout_seconds
            )
        except EngineHostError:
            return False
        return True

    async def send_request(
        self, request_data: Mapping[str, Any], timeout_seconds: float = 10.0, **none: Any
    ) -> dict[str, Any]:
        """The reply to ``{"message": …, "conversation_id": …}``: ``message``, ``status`` and the id.

        ``status`` is 0, else the number that the error has on the databus, and ``message`` says what was
        wrong. It goes to the agent of :meth:`connect_to_agent`, else to the one that routing chooses. The
        targets of Genesis's second era have no effect.
        """
        conversation = str(request_data.get("conversation_id") or uuid.uuid4())
        reply: dict[str, Any] = {"status": 0, "conversation_id": conversation}
        try:
            await self._ready()
            reply["message"] = await self._interface.ask(
                str(request_data.get("message", "")), self._chosen, conversation, timeout=timeout_seconds
            )
        except EngineHostError as error:
            status = ERROR_TABLE.get(error.code, ERROR_TABLE["internal"]).bus
            reply |= {"message": f"Error: {error.message}", "status": status, "error": error.to_json()}
        return reply

    def register_discovery_callback(self, callback: Discovered) -> None:
        """Have ``callback`` called with what there is to know of each agent that arrives."""
        self._interface.on_arrival(lambda agent: callback(_info(agent)))

    def register_departure_callback(self, callback: Departed) -> None:
        """Have ``callback`` called with the id of each agent that departs."""
        self._interface.on_departure(lambda agent: callback(agent.id))

    async def close(self) -> None:
        """Leave the databus."""
        joined, self._joined = self._joined, None
        if joined is not None:
            await asyncio.wait({joined})
            if not joined.cancelled() and joined.exception() is None:
                await self._interface.__aexit__(None, None, None)

    async def __aenter__(self) -> GenesisInterface:
        await self._ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _join(self) -> asyncio.Task[Any]:
        if self._joined is None:
            self._joined = asyncio.get_running_loop().create_task(self._enter())
        return self._joined

    async def _enter(self) -> None:
        await self._interface.__aenter__()

    async def _ready(self) -> None:
        await asyncio.shield(self._join())


class MonitoredInterface(GenesisInterface):
    """The same."""


def _info(agent: BusAgent) -> dict[str, Any]:
    """An agent in Genesis's words."""
    return {
        "agent_id": agent.id,
        "instance_id": agent.id,
        "name": agent.name,
        "prefered_name": agent.name,
        "service_name": agent.service,
        "description": agent.description,
        "message": agent.description,
        "agent_type": agent.type,
        "specializations": list(agent.specializations),
        "capabilities": list(agent.capabilities),
        "classification_tags": list(agent.tags),
        "default_capable": agent.default_capable,
    }

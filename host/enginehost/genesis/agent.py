"""An agent as a Python class that can run alone, on the databus.

::

    class Shop(Agent):
        \"\"\"Answers questions about orders.\"\"\"

        model_engine = {"ENGINE_CLASS": "OpenAI", "MODEL": "gpt-4o", "API_KEY": os.environ["OPENAI_API_KEY"]}
        tools = "*"

    asyncio.run(Shop().run())
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from enginehost.agents import python_agent

if TYPE_CHECKING:
    from enginehost.databus import DatabusConfig
    from enginehost.host import Host
    from enginehost.settings import HostSettings

FOLDER = "ENGINEHOST_FOLDER"
"""The environment's word for the folder of an agent that runs alone."""


class Agent(python_agent.Agent):
    """Base class of agents; see :class:`enginehost.agents.python_agent.Agent`.

    ``model_engine`` are the keys that a smss file of its model would have: an agent that runs alone makes
    that model, under the name that :attr:`model` has (by default the model's own), unless its folder has one
    of that name.
    """

    model_engine: Mapping[str, str] = {}

    async def run(
        self,
        *,
        folder: str | Path | None = None,
        databus: DatabusConfig | None = None,
        settings: HostSettings | None = None,
    ) -> None:
        """Answer on the databus until SIGINT or SIGTERM, or until this is cancelled.

        ``folder`` (by default what ``ENGINEHOST_FOLDER`` says, else none) has the smss files of its model and
        functions; ``settings`` and ``databus`` are as in :meth:`enginehost.Service.run`, which has what is
        raised. A model that cannot be made raises ``ConfigError`` before anybody hears of the agent.
        """
        from enginehost.genesis.alone import run_alone

        await run_alone(
            self,
            self.service_on_bus,
            folder=folder_of(folder),
            databus=databus,
            settings=settings,
            brings=self.bring_model,
        )

    @property
    def service_on_bus(self) -> str:
        """The service under which it runs alone: :attr:`service_name`, else the class's name."""
        return self.service_name or type(self).__name__

    async def bring_model(self, host: Host) -> None:
        """Add the model of :attr:`model_engine` to a host that has none of its name."""
        if self.model_engine:
            from enginehost.genesis.models import add_model

            name = await add_model(host, self.model_engine, self.said.model)
            self.spec = replace(self.spec, model=name)


def folder_of(folder: str | Path | None) -> str | Path | None:
    """The folder that was given, else the environment's."""
    return folder if folder is not None else os.environ.get(FOLDER) or None

"""``ENGINE_CLASS = Agent``: an agent that is a file."""

from __future__ import annotations

from enginehost.agents.agent_engine import AgentEngine
from enginehost.agents.building import build
from enginehost.agents.config import AgentConfig
from enginehost.engine import EngineContext


class FileAgent(AgentEngine):
    """An agent whose smss file says what it is."""

    config_model = AgentConfig
    config: AgentConfig

    def __init__(self, context: EngineContext, config: AgentConfig) -> None:
        super().__init__(context, config)
        self.be(build(config, context), streams=config.stream)

"""``ENGINE_CLASS = Agent``: an agent that is a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
        built = build(config, context)
        self.spec, self.skill_library, self.version = built.spec, built.skills, built.version
        self.streams = config.stream
        self._files = tuple(built.files)

    def watched(self) -> Sequence[Path]:
        """AGENT.md, the skills, and what else the file names."""
        return self._files

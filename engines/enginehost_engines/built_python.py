"""``PYTHON_REQUIREMENTS``: a script whose Python is built for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from enginehost.diagnostics import FAILED_BEFORE
from enginehost.engine import EngineContext
from enginehost.errors import EngineUnavailable
from enginehost_engines.environments import build, environment_for
from enginehost_engines.local_python import LocalPythonConfig, LocalPythonEngine
from enginehost_engines.requirements import read_requirements
from enginehost_engines.worker.client import WorkerClient

_LONGEST_TOLD = 100


class BuiltPythonEngine(LocalPythonEngine):
    """Opens when its environment is there, which is built the first time."""

    open_seconds: ClassVar[float | None] = 3600.0

    def __init__(self, context: EngineContext, config: LocalPythonConfig) -> None:
        super().__init__(context, config)
        requirements = read_requirements(config.python_requirements, context.folder)
        for secret in requirements.secrets():
            context.conceal(secret)
        self._requirements = requirements
        self._environment = environment_for(requirements, self._interpreter, context.access.state_dir)
        if (failure := self._environment.failure) and not self._environment.is_built:
            hint = "the host tries again from time to time; `enginehost validate --load` tries at once"
            context.warn("PYTHON_REQUIREMENTS", FAILED_BEFORE, f"the last attempt failed: {failure}", hint)

    def own_files(self) -> Sequence[Path]:
        """The script, and the requirements files."""
        return (*super().own_files(), *self._requirements.files)

    @property
    def trouble(self) -> str:
        """That nothing is installed yet, where that is left to the first call."""
        return "" if self._environment.is_built else "the first call installs its requirements"

    async def open(self) -> None:
        """Build the environment, unless it is there, or that is left to the first call.

        Raises ``EngineUnavailable``.
        """
        if not self._environment.is_built and not self.context.access.ahead:
            self._rest()
            return
        await self.before_first_call()
        if self.context.reloading:
            await self._try()
        self._start_ahead()

    async def before_first_call(self) -> None:
        """Build the environment, unless it is there. Raises ``EngineUnavailable``."""
        if not self._environment.is_built:
            await self._check_interpreter()
            self.context.opening("installing requirements")
            self.context.log.info("installing requirements")
            await build(self._environment, self._tell)
            self.context.log.info("the requirements are installed")
        self._interpreter = self._environment.interpreter

    async def connected(self, *, concurrent: bool) -> WorkerClient:
        """The way to the workers, in the environment."""
        if self._interpreter != self._environment.interpreter:
            await self.before_first_call()
        return await super().connected(concurrent=concurrent)

    def _rest(self) -> None:
        """Tell a failure that is fresh, instead of what would most likely fail in the same way."""
        if self._environment.rests:
            text = self._environment.failure
            raise EngineUnavailable(text, state="failed", reason=text)

    def _tell(self, line: str) -> None:
        self.context.log.info("installing requirements: %s", line)
        self.context.opening(f"installing requirements: {line[:_LONGEST_TOLD]}")

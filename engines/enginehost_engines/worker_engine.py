"""What the engines whose code runs in workers have in common."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from enginehost.engine import AbstractFunctionEngine, RunMode
from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost_engines.worker.client import WorkerClient, may_check
from enginehost_engines.worker.failures import FunctionRaised
from enginehost_engines.worker.pool import current_pool

MOST_FILES = 200
"""Imported files that are watched for one engine."""


class WorkerEngine(AbstractFunctionEngine):
    """Watches what its code imports, and tells the host when the code cannot be loaded (any more)."""

    _imported: tuple[Path, ...] = ()
    _is_failing: bool = False

    def own_files(self) -> Sequence[Path]:
        """The files that the smss file names."""
        raise NotImplementedError

    def watched(self) -> Sequence[Path]:
        """The files that the smss file names, and those in its folders that the code imports."""
        return (*self.own_files(), *self._imported) if self._imported else self.own_files()

    def loaded(self, info: Any, files: Collection[str]) -> None:
        """A worker serves: what it imported is watched, and the engine serves (again)."""
        was_failing, self._is_failing = self._is_failing, False
        if self._watch(files) or was_failing:
            self.context.changed()

    def not_loaded(self, error: EngineHostError, files: Collection[str]) -> None:
        """The code cannot be loaded: the engine is failed until it can, or a file changes."""
        self._watch(files)
        self._is_failing = True
        self.context.failed(error.message, error)

    def _watch(self, files: Collection[str]) -> bool:
        """Whether there are new ones among these files."""
        own, known = self.own_files(), self._imported
        new = [path for path in map(Path, files) if path not in known and path not in own]
        self._imported = (*known, *new)[:MOST_FILES]
        return self._imported != known

    async def _mode_of(self, client: WorkerClient, function: str) -> RunMode:
        """How the function runs, by its loaded code. Raises ``EngineUnavailable``."""
        try:
            return await client.mode_of(function)
        except FunctionRaised as error:
            missing = EngineUnavailable(str(error), state="failed", reason=str(error))
            self.not_loaded(missing, ())
            raise missing from None

    async def _checked_mode(self, client: WorkerClient, function: str) -> RunMode | None:
        """:meth:`_mode_of` for a version that is to replace another; ``None`` where too many are to."""
        if not await may_check():
            return None
        try:
            return await self._mode_of(client, function)
        finally:
            current_pool().checks.release()

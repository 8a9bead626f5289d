"""The faces that plugins add: each is made, started and stopped alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from enginehost.contributions import Implementation
from enginehost.entrypoints import PluginProblem, describe

if TYPE_CHECKING:
    from enginehost.hooks import Face
    from enginehost.host import Host

_log = logging.getLogger("enginehost.plugins")


class Faces:
    """Faces by name. One that fails, or takes longer than ``timeout`` seconds, is reported and left out."""

    def __init__(
        self,
        factories: Mapping[str, Implementation],
        report: Callable[[PluginProblem], None],
        *,
        timeout: float,
    ) -> None:
        self._factories = factories
        self._report = report
        self._timeout = timeout
        self._running: list[tuple[str, Face]] = []

    async def start(self, host: Host) -> None:
        """Make and start all faces."""
        for name, made in self._factories.items():
            try:
                face: Face = made.call(host)
                await self._within(face.start())
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the plugin boundary
                message = f"the face {name} does not start: {describe(error)}"
                self._report(
                    PluginProblem(made.plugin, made.hook, message, f"mend or uninstall {made.plugin}")
                )
            else:
                self._running.append((name, face))

    async def stop(self) -> None:
        """Stop all faces, the last one first."""
        while self._running:
            name, face = self._running.pop()
            try:
                await self._within(face.stop())
            except (Exception, SystemExit):  # noqa: BLE001 - the plugin boundary: the others stop too
                _log.exception("the face %s does not stop", name)

    async def _within(self, step: Awaitable[None]) -> None:
        async with asyncio.timeout(self._timeout):
            await step

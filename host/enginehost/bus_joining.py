"""How a host goes on the databus: whether at all, what is a mistake, and what it can run without."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from enginehost.contributions import Implementation, collect
from enginehost.diagnostics import IN_PROBLEMS, Diagnostic, error_diagnostics
from enginehost.errors import ConfigError, EngineHostError
from enginehost.plugins import PluginRegistry
from enginehost.settings import HostSettings

if TYPE_CHECKING:
    from enginehost.databus import Databus, DatabusConfig
    from enginehost.databus.bus import BusHost

_log = logging.getLogger("enginehost.host")


def check_bus(wanted: DatabusConfig | str | None, settings: HostSettings, *, known: bool) -> None:
    """Raise ``ConfigError`` for mistakes that show without joining.

    ``known``: the plugins are those that are installed.
    """
    if wanted is None or settings.databus.enabled is False:
        return
    from enginehost.databus.config import config_for
    from enginehost.databus.preflight import require_usable

    config = config_for(wanted, settings)
    if config is not None:
        require_usable(config, (lambda: collect(PluginRegistry()).transports) if known else None)


async def join_bus(
    host: BusHost,
    wanted: DatabusConfig | str | None,
    settings: HostSettings,
    transports: Mapping[str, Implementation],
) -> tuple[Databus | None, list[Diagnostic]]:
    """The bus, joined, or ``None``; and why there is none where one was wanted if possible (``"auto"``).

    Raises where it was asked for by name, and ``ConfigError`` where the config is wrong.
    """
    from enginehost.databus import Databus
    from enginehost.databus.config import config_for

    config = config_for(wanted, settings)
    if config is None:
        return None, []
    bus = Databus(host, config, transports)
    try:
        await bus.start()
    except EngineHostError as error:
        # What was asked for by name and does not exist is a mistake; no bus at all may be as well.
        asked = wanted != "auto" or settings.databus.enabled is True
        if asked or isinstance(error, ConfigError):
            raise
        _log.warning("databus unavailable: %s", error.message, extra=IN_PROBLEMS)
        hint = "run with --no-bus, or see `enginehost doctor` and `enginehost databus`"
        problem = ConfigError(f"databus unavailable: {error.message}", hint=hint)
        return None, error_diagnostics(problem, "databus")
    return bus, []

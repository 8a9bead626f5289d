"""Genesis's names for services."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enginehost.agents.typed_tools import Mark, typed_function
from enginehost.engine import EngineContext
from enginehost.genesis.service import Service

if TYPE_CHECKING:
    from enginehost.databus import DatabusConfig
    from enginehost.settings import HostSettings


class GenesisRPCService(Service):
    """A service, as Genesis's programs write one.

    ``capabilities`` become tags. ``domain_id`` is the databus domain of a service that runs alone, by default
    what the settings say. ``participant`` and ``registry`` have no effect: there are none to share.
    """

    def __init__(
        self,
        service_name: str | EngineContext = "",
        capabilities: Sequence[str] | None = None,
        participant: Any = None,
        domain_id: int | None = None,
        registry: Any = None,
    ) -> None:
        context = isinstance(service_name, EngineContext)  # a host makes it, with its config behind
        config, tags = (capabilities, ()) if context else (None, tuple(capabilities or ()))
        super().__init__(service_name, config, tags=tags)
        self.domain_id = domain_id

    def register_enhanced_function(
        self,
        func: Callable[..., Any],
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        operation_type: str | None = None,
        common_patterns: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a method a function of the service that no decorator marks; ``common_patterns`` has no effect.

        Without ``parameters`` its hints say what it takes.
        """
        tags = (operation_type,) if operation_type else ()
        mark = Mark(description=description, parameters=parameters, tags=tags, hidden=("request_info",))
        made = typed_function(func, mark, service=self.service_name, tags=self.tags)
        others = [one for one in self._functions if one.signature.name != made.signature.name]
        self._functions = (*others, made)

    def _advertise_functions(self) -> None:
        """Nothing: running the service advertises its functions."""

    async def run(
        self, *, databus: DatabusConfig | None = None, settings: HostSettings | None = None
    ) -> None:
        """See :meth:`enginehost.Service.run`."""
        await super().run(databus=databus, settings=in_domain(settings, self.domain_id))


class EnhancedServiceBase(GenesisRPCService):
    """The same, under the first era's other name."""


class GenesisService(GenesisRPCService):
    """The same, under the second era's name."""


class MonitoredService(GenesisRPCService):
    """The same, under the second era's other name: every host tells monitors of its calls."""


def in_domain(settings: HostSettings | None, domain: int | None) -> HostSettings | None:
    """The settings with another databus domain, where one was given."""
    from enginehost.settings import load_settings

    if domain is None:
        return settings
    if settings is None:
        return load_settings(databus__domain=domain)
    return settings.model_copy(update={"databus": settings.databus.model_copy(update={"domain": domain})})

"""What is wrong with a databus config already before the bus is joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from enginehost.contributions import OWN_TRANSPORT, Implementation
from enginehost.databus.config import DatabusConfig
from enginehost.databus.keys import signing_key
from enginehost.databus.transports import find_transport
from enginehost.databus.trust import read_trust


def require_usable(
    config: DatabusConfig, transports: Callable[[], Mapping[str, Implementation]] | None
) -> None:
    """Raise :class:`ConfigError` for keys that cannot be used, and for a transport that there is not.

    ``transports`` finds those of plugins, which are asked for only where the config names one; ``None``:
    they are not known yet.
    """
    signing_key(config)
    if config.trust_path is not None:
        read_trust(config.trust_path)
    if config.transport != OWN_TRANSPORT and transports is not None:
        find_transport(config.transport, transports())

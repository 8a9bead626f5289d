"""The hook by which a host finds this transport: the setting ``databus.transport = connext``."""

from __future__ import annotations

from collections.abc import Callable

from enginehost.databus import DatabusConfig, Transport
from enginehost.errors import EngineUnavailable
from enginehost.hooks import TransportFactory, hookimpl

NAME = "connext"


@hookimpl
def register_transports(register: Callable[[str, TransportFactory], None]) -> None:
    """Offer the transport."""
    register(NAME, join)


def join(config: DatabusConfig) -> Transport:
    """Join the bus; takes a while. Raises :class:`EngineUnavailable` with what is missing and what to do."""
    try:
        from enginehost_connext.transport import ConnextTransport
    except ImportError as failure:
        raise EngineUnavailable(
            "RTI Connext for Python is not installed, or not for this Python and platform: "
            'pip install "rti.connext>=7.7,<8"',
            reason="no-dds-library",
        ) from failure
    return ConnextTransport(config)

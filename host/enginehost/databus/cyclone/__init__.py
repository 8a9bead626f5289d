"""The embedded transport: Eclipse Cyclone DDS. No type of its library leaves this package."""

from __future__ import annotations

from enginehost.databus.cyclone.transport import CycloneTransport

__all__ = ["CycloneTransport"]

"""Events as the second era has them: one type, whose ``payload`` is JSON.

The keys of the payloads are those that Genesis 0.3 reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.databus.types import EVENT_KIND
from enginehost.values import encode

EVENT = "rti/connext/genesis/monitoring/Event"
"""The topic."""

CHAIN, LIFECYCLE, GENERAL = (EVENT_KIND.value(name) for name in ("CHAIN", "LIFECYCLE", "GENERAL"))


def unified(
    kind: int,
    event_id: str,
    component_id: str,
    timestamp: int,
    message: str,
    payload: Mapping[str, Any],
    *,
    severity: str = "INFO",
) -> dict[str, Any]:
    """An event as ``MONITORING_EVENT_UNIFIED``; ``timestamp`` in milliseconds since 1970."""
    return {
        "event_id": event_id,
        "kind": kind,
        "timestamp": timestamp,
        "component_id": component_id,
        "severity": severity,
        "message": message.replace("\0", "\ufffd"),
        "payload": encode(payload).decode(),
    }

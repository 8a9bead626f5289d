"""Logs a warning for every call that takes longer than ``ENGINEHOST_SLOW_CALL_SECONDS`` (5)."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from enginehost.hooks import hookimpl

if TYPE_CHECKING:
    from enginehost import CallRecord

_log = logging.getLogger(__name__)
_limit_ms = 1000 * float(os.environ.get("ENGINEHOST_SLOW_CALL_SECONDS", "5"))


@hookimpl
def observe_call(record: CallRecord) -> None:
    """Called for every call that ended, away from the event loop."""
    if record.duration_ms > _limit_ms:
        _log.warning("%s took %.1f s for %s", record.function, record.duration_ms / 1000, record.subject)

"""The host's log on the bus, for those who watch several hosts at once.

Every peer can read the bus, so a message is made as safe as what callers read: without secrets, local paths
and tracebacks. What functions print is not sent, for it may hold arguments, and neither is what the
databus itself says, for writing it may make it say more.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from enginehost.databus.capability import shorten
from enginehost.databus.components import Shown
from enginehost.databus.outbox import Outbox
from enginehost.databus.types import LOG_MESSAGE
from enginehost.safe_text import Redact, class_name, safe_text

LOGS = "GenesisLogs"
"""The topic."""

LOGGER = "enginehost"
"""The logger whose records, and those of the loggers below it, are the host's."""

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

MOST_WAITING = 1_000
"""Records that may wait for the event loop; further ones are dropped and counted."""

_NEVER = ("enginehost.databus.", "enginehost.engine.")
_BOUNDS = {member.name: member.bound for member in LOG_MESSAGE.members if member.bound}


class LogEvents(logging.Handler):
    """Takes the host's log records, from any thread, while somebody reads them on the bus."""

    def __init__(self, outbox: Outbox, shown: Shown, redact: Redact, level: int) -> None:
        super().__init__(level)
        self._outbox = outbox
        self._shown = shown
        self._redact = redact
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[dict[str, Any]] = deque()
        self._on = False

    def listen(self, wanted: bool) -> None:
        """Whether the log is read from now on."""
        if wanted != self._on:
            self._on = wanted
            logger = logging.getLogger(LOGGER)
            (logger.addHandler if wanted else logger.removeHandler)(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the bus."""
        _print_at_least(self, record)
        if f"{record.name}.".startswith(_NEVER):
            return
        try:
            values = log_values(record, self._shown.host_id, self._shown.service, self._redact)
        except Exception:  # noqa: BLE001 - a message whose arguments do not fit it, as any handler meets
            self.handleError(record)
            return
        if len(self._waiting) >= MOST_WAITING:
            self._outbox.dropped += 1
            return
        self._waiting.append(values)
        with suppress(RuntimeError):  # the loop has closed
            self._loop.call_soon_threadsafe(self._send)

    def _send(self) -> None:
        while self._waiting:
            self._outbox.put(LOGS, self._waiting.popleft())


def log_values(record: logging.LogRecord, host_id: str, service: str, redact: Redact) -> dict[str, Any]:
    """A record as ``LOG_MESSAGE``, each text within its bound. ``level`` is Python's number."""
    message = safe_text(record.getMessage(), redact)
    if record.exc_info and record.exc_info[1] is not None:
        message = f"{message} ({class_name(record.exc_info[1], redact)})"
    texts = {
        "log_id": uuid.uuid4().hex,
        "source_id": host_id,
        "source_name": service,
        "level_name": record.levelname,
        "message": message,
        "logger_name": record.name,
        "thread_id": str(record.thread or ""),
        "thread_name": record.threadName or "",
        "file_name": record.filename,
        "function_name": record.funcName or "",
    }
    fitted = {name: shorten(text, _BOUNDS[name]) for name, text in texts.items()}
    timestamp = int(record.created * 1000)
    return {**fitted, "timestamp": timestamp, "level": record.levelno, "line_number": record.lineno}


def _print_at_least(handler: LogEvents, record: logging.LogRecord) -> None:
    """Where a program has set up no logging, Python prints warnings only as long as nobody handles them."""
    last = logging.lastResort
    logger: logging.Logger | None = logging.getLogger(record.name)
    if last is None or record.levelno < last.level:
        return
    found: list[logging.Handler] = []
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    if found[:1] == [handler] and all(isinstance(one, LogEvents) for one in found):
        last.handle(record)

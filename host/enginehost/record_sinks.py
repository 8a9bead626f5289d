"""Who is given the records of calls: the log, the audit file and the plugins that a host has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TextIO

from enginehost.record import CallRecord, Sink
from enginehost.redaction import Redactor
from enginehost.settings import HostSettings
from enginehost.sinks import AuditFile, console_log, each, json_log


def open_sinks(
    settings: HostSettings,
    log: TextIO | None,
    observers: Iterable[Callable[[CallRecord], None]],
    redactor: Redactor,
    at_end: ExitStack,
) -> list[Sink]:
    """The sinks that the settings ask for, with a line per call on ``log``; ``at_end`` closes them.

    Raises ``ConfigError`` where the audit file cannot be opened.
    """
    sinks: list[Sink] = []
    if log is not None:
        wanted = settings.log.format
        console = wanted == "console" or (wanted == "auto" and log.isatty())
        sinks.append((console_log if console else json_log)(log, redactor))
    if settings.audit.path is not None:
        audit = AuditFile(settings.audit.path, values=settings.audit.values, redact=redactor)
        at_end.callback(audit.close)
        sinks.append(audit)
    told = settings.audit.values and settings.audit.path is not None
    return sinks + [each(observe, redactor, values=told) for observe in observers]

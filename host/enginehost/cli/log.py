"""The log of a running host, on standard error: JSON lines, or short lines for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO, cast

from enginehost.cli.output import escaped, on_terminal, printable
from enginehost.cli.secrecy import plain_errors
from enginehost.log_stream import LogStream
from enginehost.redaction import without_url_passwords
from enginehost.safe_text import Redact
from enginehost.settings import LogSettings
from enginehost.tracebacks import cause_traceback

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_IDS = ("call_id", "chain_id")
"""Which call it was that a function printed something in."""

_ENGINES = "enginehost.engine."
"""What the names of the loggers of engines begin with."""


def compact(body: dict[str, Any]) -> str:
    """A JSON line in the style of the call records beside it."""
    return json.dumps(body, ensure_ascii=True, separators=(",", ":"), default=str)


class JsonLines(logging.Formatter):
    """One JSON object a line, in the shape of the call records beside it, without secrets."""

    def __init__(self, redact: Redact = str) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        body: dict[str, Any]
        if (problem := getattr(record, "problem", None)) is not None:
            body = {"event": "problem", "time": time, **self._told(problem)}
        else:
            body = {
                "event": "log",
                "time": time,
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": self._redact(record.getMessage()),
                **{name: record.__dict__[name] for name in _IDS if name in record.__dict__},
            }
        if record.exc_info:
            body["exception"] = self._redact(self.formatException(record.exc_info))
        return compact(body)

    def _told(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._redact(part) if isinstance(part, str) else part for name, part in problem.items()}

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        """The author's frames where there are any, else all."""
        return _traceback(ei)


class ForPeople(logging.Formatter):
    """Time, level and message, without secrets."""

    def __init__(self, redact: Redact = str) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(source)s%(message)s", datefmt="%H:%M:%S")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The line, without what would steer a terminal; what functions print has the id of their engine."""
        engine = record.name.removeprefix(_ENGINES)
        record.source = f"{escaped(engine)}: " if engine != record.name else ""
        return printable(self._redact(super().format(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        """The author's frames where there are any, else all."""
        return _traceback(ei)


def _traceback(info: tuple[Any, BaseException | None, Any]) -> str:
    return cause_traceback(info[1]).rstrip() if info[1] is not None else ""


class Log:
    """Where a running host says what happens."""

    def __init__(self, settings: LogSettings, stream: TextIO | None = None) -> None:
        self.stream = cast("TextIO", LogStream(stream or plain_errors()))
        self.for_people = settings.format == "console" or (
            settings.format == "auto" and on_terminal(self.stream)
        )
        self.level = _LEVELS[settings.level]
        self.problems_follow = True
        """Whether all problems are yet to be told at once, so that no line need tell of each."""
        self.redact: Redact = without_url_passwords
        """Takes known secrets out of a text."""

    @property
    def calls(self) -> TextIO | None:
        """Where the host writes a line per call: they are of level *info*."""
        return self.stream if self.level <= logging.INFO else None

    def start(self) -> None:
        """Take over what all loggers of this process say."""
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(ForPeople(self._redacted) if self.for_people else JsonLines(self._redacted))
        handler.addFilter(lambda line: not (self.problems_follow and hasattr(line, "in_problems")))
        logging.basicConfig(handlers=[handler], level=self.level, force=True)
        logging.getLogger("uvicorn").setLevel(max(self.level, logging.WARNING))

    def _redacted(self, text: str) -> str:
        return self.redact(text)

    def event(self, name: str, **facts: Any) -> None:
        """Something in the life of the host, for programs; people read the page of ``startup.py``."""
        if not self.for_people and self.level <= logging.INFO:
            time = datetime.now(UTC).isoformat()
            self.stream.write(f"{compact({'event': name, 'time': time, **facts})}\n")
            self.stream.flush()

    def tell(self, text: str) -> None:
        """A line for people."""
        if self.for_people:
            self.stream.write(f"{text}\n")
            self.stream.flush()

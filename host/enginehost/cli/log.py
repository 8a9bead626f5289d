"""The log of a running host, on standard error: JSON lines, or short lines for people."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from enginehost.cli.output import on_terminal, printable
from enginehost.safe_text import Redact
from enginehost.settings import LogSettings

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


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
        body: dict[str, Any] = {
            "event": "log",
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        if record.exc_info:
            body["exception"] = self._redact(self.formatException(record.exc_info))
        return compact(body)


class ForPeople(logging.Formatter):
    """Time, level and message, without secrets."""

    def __init__(self, redact: Redact = str) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The line, without what would steer a terminal."""
        return printable(self._redact(super().format(record)))


class Log:
    """Where a running host says what happens."""

    def __init__(self, settings: LogSettings, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.for_people = settings.format == "console" or (
            settings.format == "auto" and on_terminal(self.stream)
        )
        self.level = _LEVELS[settings.level]
        self.problems_follow = True
        """Whether all problems are yet to be told at once, so that no line need tell of each."""
        self.redact: Redact = str
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

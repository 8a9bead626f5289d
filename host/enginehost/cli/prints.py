"""What functions print while the command line runs them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout

from enginehost.cli.failures import REPORTING
from enginehost.cli.output import emphasised, note, printable
from enginehost.cli.secrecy import masked

_ENGINES = "enginehost.engine"
"""The logger above those to which engines send what their functions print."""


class ForTerminal(logging.Formatter):
    """Lines of the log, without what would steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; further ones are marked."""
        return printable(masked(super().format(record)))


class _Notes(logging.Handler):
    """Shows each line on standard error; ``before`` clears the way."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self._before = before

    def emit(self, record: logging.LogRecord) -> None:
        self._before()
        note(emphasised(printable(masked(record.getMessage())), sys.stderr, "dim"))


@contextmanager
def prints_shown(before: Callable[[], None]) -> Generator[None]:
    """Show what functions print or log meanwhile, beside the output; ``before`` each line is called.

    Nothing is shown where programs read errors as JSON; with ``--debug`` the log has it already.
    """
    logger, notes = logging.getLogger(_ENGINES), _Notes(before)
    level = logger.level
    if not (REPORTING.debug or REPORTING.json):
        logger.addHandler(notes)
        logger.setLevel(logging.INFO)
    try:
        with redirect_stdout(sys.stderr):  # those that run in this process
            yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)

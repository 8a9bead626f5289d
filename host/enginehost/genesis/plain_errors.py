"""What is wrong with a program's settings, in a line, where the program lets the error end it.

The error is raised as any other, so that who catches it can. Only one that nobody caught is told so, in place
of a traceback, and the exit code is that of the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn

from enginehost.errors import ConfigError

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], None]
"""Of ``sys.excepthook``."""


@contextmanager
def plain_errors() -> Generator[None]:
    """Have a ``ConfigError`` that leaves this, and then the program, told in a line.

    A program that has a hook of its own for what nobody caught keeps it.
    """
    try:
        yield
    except ConfigError as error:
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = _hook(error)
        raise


def _hook(told: ConfigError) -> Hook:
    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is told:
            _end(told)
        sys.__excepthook__(kind, error, trace)

    return hook


def _end(error: ConfigError) -> NoReturn:
    for one in (error, *error.others):
        place = f"{one.where}: " if one.where else ""
        hint = f" ({one.hint})" if one.hint else ""
        sys.stderr.write(f"error: {place}{one.message}{hint}\n")
    sys.exit(error.row.exit)

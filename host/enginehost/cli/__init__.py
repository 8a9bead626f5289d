"""The command line: ``enginehost COMMAND``.

Every command stands in a module of its own that is loaded when the command runs, and so are the
commands of plugins: ``enginehost --help`` costs what it prints.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def _open_what_is_closed() -> None:
    """Who closes an output (``>&-``) wants none of it; Python has ``None`` there then."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open to the end
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _end_at_signals() -> None:
    """Until a host runs there is nothing to end in order: SIGTERM and SIGINT end the process with 0.

    SIGHUP does nothing yet.
    """
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _command(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that ``argv`` (default: the process's arguments) names; ends in ``SystemExit``.

    The exit code is 0, or that of the error in :data:`enginehost.errors.ERROR_TABLE`.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None and _command(words) == "run":  # first of all: what follows is half a second of imports
        _end_at_signals()
    from enginehost.cli.app import app
    from enginehost.cli.failures import REPORTING, report
    from enginehost.cli.secrecy import masked_errors
    from enginehost.cli.usage import nobody_reads

    _open_what_is_closed()
    REPORTING.reset(words)
    with masked_errors():
        try:
            try:
                app(args=words, prog_name="enginehost")
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            sys.exit(nobody_reads())
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # so rich and typer tell it
                sys.exit(nobody_reads())
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: what a person sees is never a traceback
            sys.exit(report(error))

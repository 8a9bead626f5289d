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


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that ``argv`` (default: the process's arguments) names; ends in ``SystemExit``.

    The exit code is 0, or that of the error in :data:`enginehost.errors.ERROR_TABLE`.
    """
    from enginehost.cli.app import app
    from enginehost.cli.failures import REPORTING, report

    _open_what_is_closed()
    REPORTING.reset()
    try:
        app(args=None if argv is None else list(argv), prog_name="enginehost")
    except Exception as error:  # noqa: BLE001 - the boundary: what a person sees is never a traceback
        sys.exit(report(error))

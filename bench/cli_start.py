"""How long the command line takes: the help page against a bare typer application's, and a list of 100 files.

Usage::

    python bench/cli_start.py [RUNS=11]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from folders import write_folder
from measuring import SERVER_CORE, finish, in_turn, introduce, pin, table, verdict
from peers import interpreter

FILES = 100
MOST_HELP = 1.3
MOST_LIST_SECONDS = 0.6
TYPER = '''\
import typer

app = typer.Typer()


@app.command()
def greet(name: str) -> None:
    """Greet somebody."""
    print(f"Hello {name}")


@app.command()
def leave() -> None:
    """Say goodbye."""


app()
'''


def milliseconds(command: Sequence[str]) -> Callable[[], float]:
    """How long the command runs."""

    def measure() -> float:
        begin = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return (perf_counter() - begin) * 1000

    return measure


def main(runs: int = 11) -> None:
    pin(SERVER_CORE)
    introduce("Start of the command line, on one core, files cached")
    command = str(Path(sys.executable).with_name("enginehost"))
    with tempfile.TemporaryDirectory() as name:
        bare, folder = Path(name, "bare.py"), Path(name, "smss")
        bare.write_text(TYPER)
        folder.mkdir()
        write_folder(folder, "LocalPython", FILES)
        cases = {
            "python -c pass": milliseconds([sys.executable, "-c", "pass"]),
            "bare typer application, --help": milliseconds([sys.executable, str(bare), "--help"]),
            "enginehost --help": milliseconds([command, "--help"]),
            f"enginehost list, {FILES} files": milliseconds([command, "list", str(folder)]),
        }
        if peer := interpreter("fastmcp"):
            cases["fastmcp --help"] = milliseconds([str(Path(peer).with_name("fastmcp")), "--help"])
        in_turn(cases, 1)  # warms the caches
        found = in_turn(cases, runs)
    table("ms", ["command", "median", "lowest", "highest"], [[n, *row.cells(0)] for n, row in found.items()])
    bare_ms = found["bare typer application, --help"].median
    verdict(
        "enginehost --help over the bare one's", found["enginehost --help"].median / bare_ms, most=MOST_HELP
    )
    listed = found[f"enginehost list, {FILES} files"].median / 1000
    verdict(f"seconds to list {FILES} files", listed, most=MOST_LIST_SECONDS)


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
    finish()

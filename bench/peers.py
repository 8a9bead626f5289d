"""Other people's programs that stand beside us in the tables.

``BENCH_PEERS`` names a folder of virtual environments; ``fastmcp`` in it holds ``fastmcp``, ``uvloop``
and ``httptools``. Without it, the rows are left out and the table says so.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent


def interpreter(peer: str) -> str | None:
    """The Python of the peer's environment; ``None``, and a line that says so, where there is none."""
    folder = os.environ.get("BENCH_PEERS")
    found = Path(folder, peer, "bin", "python") if folder else None
    if found is not None and found.exists():
        return str(found)
    print(f"(no row for {peer}: BENCH_PEERS names no folder with a virtual environment {peer})")
    return None


def figure(python: str, what: str) -> float:
    """What ``fastmcp_alone.py`` measures, in the peer's interpreter."""
    command = [python, str(_HERE / "fastmcp_alone.py"), what]
    quiet = {**os.environ, "FASTMCP_LOG_LEVEL": "ERROR"}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=quiet).stdout
    return float(output.split()[-1])

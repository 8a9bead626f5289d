"""Other people's programs that stand beside us in the tables.

They stand in virtual environments of their own, ``fastmcp`` with what the dependency group ``peer-fastmcp``
lists, and so on. ``make bench`` makes them in ``.peers``; ``BENCH_PEERS`` names another folder of them.
Without them, the rows are left out and a line says so.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent


def interpreter(peer: str) -> str | None:
    """The Python of the peer's environment; ``None``, and a line that says so, where there is none."""
    named = os.environ.get("BENCH_PEERS")
    place = Path(named or _HERE.parent / ".peers", peer)
    # an environment where it could not be installed has only a Python
    if (place / "installed").exists() or (place / "bin" / peer).exists():
        return str(place / "bin" / "python")
    where = "the folder that BENCH_PEERS names has no environment with it"
    here = "`make bench` installs it where a package registry can be reached"
    print(f"(no row for {peer}: {where if named else here})", flush=True)
    return None


def figure(python: str, what: str) -> float:
    """What ``fastmcp_alone.py`` measures, in the peer's interpreter."""
    command = [python, str(_HERE / "fastmcp_alone.py"), what]
    quiet = {**os.environ, "FASTMCP_LOG_LEVEL": "ERROR"}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=quiet).stdout
    return float(output.split()[-1])

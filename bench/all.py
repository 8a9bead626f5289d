"""Runs every benchmark, one after the other.

Usage::

    [BENCH_PEERS=folder-of-virtual-environments] python bench/all.py

``make bench`` installs the peers first (see ``peers.py``).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "host_call",
    "http_call",
    "mcp_calls",
    "rest_calls",
    "worker_calls",
    "load_files",
    "specs",
    "monitoring",
    "narrowing",
    "store",
    "cli_start",
    "llm_stream",
    "sessions",
    "bus_calls",
    "bus_directory",
    "bus_replicas",
    "bus_others",
    "network",
)

if __name__ == "__main__":
    failed = [
        name
        for name in BENCHMARKS
        if subprocess.run([sys.executable, Path(__file__).with_name(f"{name}.py")], check=False).returncode
    ]
    sys.exit(f"missed a target or could not run: {', '.join(failed)}" if failed else 0)

"""A running host is closed to other programs of its user, and so to the functions that it runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, os, sys
from enginehost.cli.running import _shut_out_debuggers

if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)  # root may read everything
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)

def child_can_read():
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as after exec
        try:
            for name in ("environ", "mem"):
                open(f"/proc/{os.getppid()}/{name}", "rb").read(0)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0

before = child_can_read()
_shut_out_debuggers()
print(before, child_can_read())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what /proc shows")
def test_a_child_cannot_read_the_hosts_memory_or_environment() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "False"

"""The first file a worker process runs: ``python worker_main.py FD AREA PARENT HOST ENGINES``.

``HOST`` and ``ENGINES`` are the folders of the packages ``enginehost`` and ``enginehost_engines``. They
become importable under their names without anything else of the host's installation, so that any
Python ≥ 3.11 can be a worker with its own packages.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import signal
import socket
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1  # prctl(2)

_LOOK_SECONDS = 0.5


def main() -> None:
    """Tie this process to its host, then serve it until it goes."""
    fd, area, parent, host, engines = sys.argv[1:6]
    os.set_inheritable(int(fd), False)
    _die_with(int(parent))
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs start-up time
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    for name, folder in (("enginehost", host), ("enginehost_engines", engines)):
        _make_importable(name, folder)
    from enginehost_engines.worker.child import serve

    serve(socket.socket(fileno=int(fd)), int(area))


def _die_with(parent: int) -> None:
    """End when the host dies, however busy either is: by the kernel's hand (Linux), else by a thread's."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):  # another system, or an interpreter without ctypes
        threading.Thread(target=_follow, args=(parent,), name="enginehost-parent", daemon=True).start()
    if os.getppid() != parent:
        raise SystemExit(0)


def _follow(parent: int) -> None:
    """Kill this process, and those that it started, soon after its parent has gone."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os.killpg(0, signal.SIGKILL)


def _make_importable(name: str, folder: str) -> None:
    """Import the package at ``folder`` as ``name``, whatever ``sys.path`` holds."""
    spec = importlib.machinery.PathFinder.find_spec(name, [os.path.dirname(folder)])  # noqa: PTH120
    if spec is None or spec.loader is None:
        raise SystemExit(f"no package {name} in the host's installation")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    main()

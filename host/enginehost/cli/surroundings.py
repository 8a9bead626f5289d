"""What a host finds on this machine: ports, the DDS library, inotify, limits, its state folder."""

from __future__ import annotations

import importlib
import os
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from enginehost import __version__
from enginehost.address import is_loopback
from enginehost.auth import check_binding
from enginehost.cli.findings import Finding, doubtful, fine, of_error, wrong
from enginehost.errors import ConfigError
from enginehost.folder import look
from enginehost.settings import HostSettings

_INOTIFY = Path("/proc/sys/fs/inotify")
_FEW_FILES = 4096
"""Open files below which many callers at once meet a limit."""


def program() -> Iterator[Finding]:
    """The program itself and what makes it fast."""
    yield fine("program", f"enginehost {__version__}, Python {platform.python_version()}, {sys.platform}")
    missing = [name for name in ("uvloop", "httptools", "orjson") if not _importable(name)]
    if missing:
        hint = f"pip install {' '.join(missing)}"
        yield doubtful("program", f"without {', '.join(missing)}: everything works, more slowly", hint)


def http(settings: HostSettings) -> Iterator[Finding]:
    """Whether HTTP can listen where it should."""
    http = settings.http
    if not http.enabled:
        yield fine("http", "off")
        return
    try:
        check_binding(settings, http.address)
    except ConfigError as error:
        yield of_error("http", error)
    reach = "this machine only" if is_loopback(http.host) else "other machines too"
    reason = _why_not_bound(http.host, http.port)
    if not reason:
        yield fine("http", f"{http.address} is free ({reach})")
    elif _host_answers(http.host, http.port):
        yield fine("http", f"a host already serves at {http.address}")
    else:
        hint = "stop what listens there, or choose another with --http HOST:PORT"
        yield wrong("http", f"{http.address} cannot be had: {reason}", hint)


def _why_not_bound(host: str, port: int) -> str:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _host_answers(host: str, port: int) -> bool:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().read() == b'{"status":"ok"}'
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def databus(settings: HostSettings) -> Iterator[Finding]:
    """Whether the host can go on the databus."""
    bus = settings.databus
    if bus.enabled is False:
        yield fine("databus", "off")
    elif _importable("cyclonedds.domain"):
        yield fine("databus", f"domain {bus.domain} on interface {bus.interface}, as service {bus.service}")
    elif bus.enabled is True:
        yield wrong("databus", "the DDS library is not installed", "pip install cyclonedds, or databus: off")
    else:
        yield doubtful("databus", "the DDS library is not installed: no databus", "pip install cyclonedds")


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001 - a library that cannot load raises what it likes
        return False
    return True


def machine(settings: HostSettings, folder: Path) -> Iterator[Finding]:
    """Limits of the system, worker processes, the state folder."""
    yield fine("workers", f"at most {settings.max_workers} processes on {os.cpu_count()} processors")
    yield from _open_files()
    yield from _inotify(folder)
    yield _state_dir(settings.state_dir)


def _open_files() -> Iterator[Finding]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _FEW_FILES:
        hint = "raise it (ulimit -Hn, LimitNOFILE= of systemd)"
        yield doubtful("limits", f"at most {hard} open files, so about as many callers at once", hint)
    else:
        yield fine("limits", f"{soft} open files (`run` raises that as far as it may)")


def _inotify(folder: Path) -> Iterator[Finding]:
    try:
        watches = int((_INOTIFY / "max_user_watches").read_text())
    except (OSError, ValueError):
        return
    folders = len(look(folder).folders)
    if folders * 2 > watches:
        hint = (
            f"sysctl fs.inotify.max_user_watches={max(524_288, folders * 4)}; until then the folder is polled"
        )
        yield doubtful(
            "watching", f"{folders} folders to watch, and {watches} inotify watches per user", hint
        )
    else:
        yield fine("watching", f"inotify, {folders} of {watches} watches")


def _state_dir(path: Path) -> Finding:
    existing = next(p for p in (path, *path.absolute().parents) if p.exists())
    if os.access(existing, os.W_OK):
        return fine("state", str(path))
    return doubtful(
        "state", f"{path} cannot be written: the host's id changes at each start", "set state_dir"
    )

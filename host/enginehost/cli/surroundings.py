"""What a host finds on this machine: ports, the DDS library, inotify, limits, its state folder."""

from __future__ import annotations

import asyncio
import importlib
import os
import platform
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from enginehost import __version__
from enginehost.address import binding_hint, is_loopback
from enginehost.auth import check_binding
from enginehost.cli.findings import Finding, Grade, doubtful, fine, of_error, wrong
from enginehost.contributions import OWN_TRANSPORT, collect
from enginehost.databus.bus import leave
from enginehost.databus.config import config_of
from enginehost.databus.peers import LOST, told
from enginehost.databus.transports import find_transport
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.folder import look
from enginehost.plugins import PluginRegistry
from enginehost.settings import HostSettings
from enginehost.sinks import check_audit
from enginehost.store import look_at_store
from enginehost.watch import INOTIFY_HINT, notifier

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
        yield from of_error("http", error)
    reach = "this machine only" if is_loopback(http.host) else "other machines too"
    error = _bound(http.host, http.port)
    if error is None:
        yield fine("http", f"{http.address} is free ({reach})")
    elif _host_answers(http.host, http.port):
        yield fine("http", f"a host already serves at {http.address}")
    else:
        reason = error.strerror or str(error)
        yield wrong("http", f"{http.address} cannot be had: {reason}", binding_hint(error))


def _bound(host: str, port: int) -> OSError | None:
    """Listen there for a moment; why that is impossible."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
    except OSError as error:
        return error
    return None


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


async def databus(settings: HostSettings) -> Finding:
    """Whether the host can go on the databus: it does, for a moment."""
    bus = settings.databus
    if bus.enabled is False:
        return fine("databus", "off")
    try:
        join = find_transport(bus.transport, collect(PluginRegistry()).transports)
        transport = await asyncio.to_thread(join, config_of(settings))
    except ConfigError as error:
        return of_error("databus", error)[0]
    except EngineUnavailable as error:
        missing = error.detail.get("reason") == "no-dds-library"
        found = wrong if bus.enabled is True else doubtful
        return found("databus", error.message, "pip install cyclonedds, or databus: off" if missing else "")
    lost = transport.describe().get(LOST)
    await leave(transport)
    if lost:
        hint = "mend the names in the setting databus.peers, or name addresses"
        return doubtful("databus", told(lost), hint)
    by = "" if bus.transport == OWN_TRANSPORT else f" by the transport {bus.transport}"
    where = f"domain {bus.domain} on interface {bus.interface}{by}, as service {bus.service}"
    return fine("databus", f"{where}; `enginehost databus` shows who else is there")


async def sessions(settings: HostSettings, *, needed: bool) -> Finding:
    """Whether sessions can be in their database. Without agents (``needed``) it is no matter if not."""
    try:
        return fine("sessions", await asyncio.to_thread(look_at_store, settings))
    except ConfigError as error:
        found = of_error("sessions", error)[0]
        return found if needed else replace(found, grade=Grade.WARNING)


def audit(settings: HostSettings) -> Iterator[Finding]:
    """Whether the audit can be written."""
    path = settings.audit.path
    if path is None:
        return
    try:
        check_audit(path)
    except ConfigError as error:
        yield from of_error("audit", error)
    else:
        yield fine("audit", str(path))


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
    folders = look(folder).folders
    try:
        notifier(folders).close()
    except (OSError, RuntimeError) as error:
        yield doubtful(
            "watching",
            f"no inotify watch can be had ({error})",
            f"{INOTIFY_HINT}; until then the folder is polled",
        )
    else:
        yield fine("watching", f"inotify, {len(folders)} folders")


def _state_dir(path: Path) -> Finding:
    existing = next(p for p in (path, *path.absolute().parents) if p.exists())
    if os.access(existing, os.W_OK):
        return fine("state", str(path))
    return doubtful(
        "state", f"{path} cannot be written: the host's id changes at each start", "set state_dir"
    )

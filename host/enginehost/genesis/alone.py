"""A service or an agent in a program of its own: a host with one engine, on the databus."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehost.catalog import EngineRecord
from enginehost.databus.config import config_of
from enginehost.engine import IFunctionEngine
from enginehost.errors import ConfigError
from enginehost.genesis.plain_errors import plain_errors
from enginehost.host import Host
from enginehost.settings import HostSettings, load_settings

if TYPE_CHECKING:
    from types import FrameType

    from enginehost.databus import DatabusConfig

KIND = "program"
"""The kind of the engine in the host's list."""

Brings = Callable[[Host], Awaitable[None]]
"""Adds to a host what the engine needs there."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_alone(
    engine: IFunctionEngine,
    service: str,
    *,
    folder: str | Path | None = None,
    databus: DatabusConfig | None = None,
    settings: HostSettings | None = None,
    brings: Brings | None = None,
) -> None:
    """Serve one engine until a signal or a cancellation. See :func:`serving`."""
    with plain_errors(), _until_a_signal() as stop:
        async with serving(
            engine, service, folder=folder, databus=databus, settings=settings, brings=brings
        ) as host:
            sys.stderr.write(f"{told(host, engine, service)}\n")
            sys.stderr.flush()
            await stop.wait()


@asynccontextmanager
async def serving(
    engine: IFunctionEngine,
    service: str,
    *,
    folder: str | Path | None = None,
    databus: DatabusConfig | None = None,
    settings: HostSettings | None = None,
    brings: Brings | None = None,
) -> AsyncGenerator[Host]:
    """A host that offers ``engine`` as ``service``, beside the smss files of ``folder``.

    ``brings`` is called before it is added. Raises ``ConfigError`` where the databus is switched off, and
    what the engine's ``open`` raises.
    """
    settings = settings or load_settings(folder)
    if settings.databus.enabled is False:
        hint = "take databus.enabled (ENGINEHOST_DATABUS__ENABLED) out of its settings"
        raise ConfigError(f"{service} runs alone, and the databus is switched off", hint=hint)
    config = databus or config_of(settings)
    async with Host(folder, _own(config, settings, service), settings=settings) as host:
        if brings is not None:
            await brings(host)
        await host.add_engine(EngineRecord(service, KIND, display_name=service), engine)
        yield host


def told(host: Host, engine: IFunctionEngine, service: str) -> str:
    """What is offered and where, in a line."""
    names = [one.signature.name for one in engine.functions()]
    about = host.bus.describe() if host.bus is not None else {}
    place = f"databus domain {about.get('domain')} on {about.get('interface')}"
    return f"{service} offers {', '.join(names)} ({place})"


def _own(config: DatabusConfig, settings: HostSettings, service: str) -> DatabusConfig:
    """The config of this service: its ids stay its own however many services share a state directory."""
    state = config.state_dir or settings.state_dir
    kept = replace(config, state_dir=state)
    digest = hashlib.sha256(service.encode(errors="surrogateescape")).hexdigest()[:16]
    return replace(
        config,
        service=service,
        state_dir=state / "alone" / digest,
        key_file=_there(kept.key_file, kept.key_path),
        trust_file=_there(kept.trust_file, kept.trust_path),
    )


def _there(named: Path | None, usual: Path | None) -> Path | None:
    """The file that settings name, else the usual one where there is one."""
    return named or (usual if usual is not None and usual.is_file() else None)


@contextmanager
def _until_a_signal() -> Generator[asyncio.Event]:
    """An event that the first SIGINT or SIGTERM sets; a second one does what it did before.

    Off the main thread, where signals go by, only a cancellation ends the wait.
    """
    stop = asyncio.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    handler = _Handler(lambda: loop.call_soon_threadsafe(stop.set), before)
    for number in _SIGNALS:
        signal.signal(number, handler)
    try:
        yield stop
    finally:
        handler.restore()


class _Handler:
    """Of the first signal. Another service of this program that waits for one, too, hears of it as well."""

    def __init__(self, stop: Callable[[], object], before: Mapping[signal.Signals, Any]) -> None:
        self._stop = stop
        self._before = before
        self._over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        self._stop()
        other = self._before[signal.Signals(number)]
        if isinstance(other, _Handler):
            other(number, frame)

    def restore(self) -> None:
        """Take it out; where another stands before it, that one passes it over when it goes."""
        self._over = True
        for number in self._before:
            if signal.getsignal(number) is self:
                handler = self._under(number)
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _under(self, number: signal.Signals) -> Any:
        handler = self._before[number]
        return handler._under(number) if isinstance(handler, _Handler) and handler._over else handler

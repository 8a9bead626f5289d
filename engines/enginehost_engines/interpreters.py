"""Which Python runs a script: ``PYTHON_VENV``."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enginehost.errors import ConfigError, EngineUnavailable

OLDEST = 3, 9
"""The oldest Python that a worker process runs on."""

_PROBE_SECONDS = 20.0
_PLACES = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
_VERSION = re.compile(r"(?m)^version(?:_info)?\s*=\s*(\d+)\.(\d+)[\w.]*")
_NAMED = re.compile(r"python(\d+)\.(\d+)\w?")
_OF_THE_HOST = ("PYTHONPATH", "PYTHONHOME", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables that say where the host's own Python finds things."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python. ``config`` is the ``pyvenv.cfg`` of a virtual environment."""

    path: Path
    config: Path | None

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that change when the environment is made anew."""
        return (self.config,) if self.config is not None else (self.path,)

    @property
    def identity(self) -> str:
        """Differs between versions and installations of Python."""
        real = self.path.resolve()
        stat = real.stat()
        version = _told_version(self.config)
        return f"{real} {stat.st_size} {stat.st_mtime_ns} {version}"


HOST_INTERPRETER = Interpreter(Path(sys.executable), None)


def find_interpreter(text: str, folder: Path) -> Interpreter:
    """The interpreter that ``PYTHON_VENV`` names. Raises :class:`ConfigError`; runs nothing."""
    # not resolved: a virtual environment's interpreter is a link, and known by the link's own place
    named = Path(os.path.abspath(folder / os.path.expanduser(text)))  # noqa: PTH100, PTH111
    if named.is_dir():
        found = next((named / place for place in _PLACES if (named / place).is_file()), None)
        if found is None:
            raise _no_environment(f"the folder {text} is no virtual environment")
        named = found
    elif not named.is_file():
        raise _no_environment(f"there is no folder or interpreter {text}")
    if not os.access(named, os.X_OK):
        raise _no_environment(f"{text} is no program")
    config = named.parent.parent / "pyvenv.cfg"
    interpreter = Interpreter(named, config if config.is_file() else None)
    version = _told_version(interpreter.config) or _named_version(named)
    if version and version < OLDEST:
        raise _no_environment(_too_old(version))
    return interpreter


def _no_environment(message: str) -> ConfigError:
    hint = (
        "name a virtual environment (made by `python -m venv`) or an interpreter, relative to the smss file"
    )
    return ConfigError(f"PYTHON_VENV: {message}", key="PYTHON_VENV", hint=hint, reason="venv-missing")


def _too_old(version: tuple[int, ...]) -> str:
    oldest = ".".join(map(str, OLDEST))
    return f"it is Python {'.'.join(map(str, version))}; scripts run on Python {oldest} and newer"


def _told_version(config: Path | None) -> tuple[int, int] | None:
    try:
        match = _VERSION.search(config.read_text("utf-8", "replace")) if config is not None else None
    except OSError:
        return None
    return (int(match[1]), int(match[2])) if match else None


def _named_version(path: Path) -> tuple[int, int] | None:
    """The version that an interpreter has in the name behind its links: ``python3.8``."""
    match = _NAMED.fullmatch(path.resolve().name)
    return (int(match[1]), int(match[2])) if match else None


async def check_interpreter(interpreter: Interpreter) -> None:
    """Run it once, to see that it runs and is new enough. Raises ``EngineUnavailable``."""
    identity = await asyncio.to_thread(lambda: interpreter.identity)
    if identity in _checked:
        return
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        process = await asyncio.create_subprocess_exec(
            *(str(interpreter.path), "-c", code),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_of(interpreter.path),
        )
    except OSError as error:
        raise _unusable(f"it cannot be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise _unusable(f"it did not say its version within {_PROBE_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    match = re.search(rb"(\d+)\.(\d+)\s*$", output)
    if match is None:
        raise _unusable("it did not say its version")
    version = int(match[1]), int(match[2])
    if version < OLDEST:
        raise _unusable(_too_old(version))
    _checked.add(identity)


_checked: set[str] = set()


def _unusable(why: str) -> EngineUnavailable:
    text = f"the interpreter of PYTHON_VENV cannot be used: {why}"
    return EngineUnavailable(text, state="failed", reason=text)


def environment_of(interpreter: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process that this interpreter runs, as if its environment had been activated.

    The host's own settings, and what leads its Python to its own packages, stay behind.
    """
    environ = os.environ if environ is None else environ
    found = {key: text for key, text in environ.items() if not key.startswith("ENGINEHOST_")}
    if str(interpreter) == sys.executable:
        return found
    for key in _OF_THE_HOST:
        found.pop(key, None)
    if (interpreter.parent.parent / "pyvenv.cfg").is_file():
        found["VIRTUAL_ENV"] = str(interpreter.parent.parent)
        found["PATH"] = os.pathsep.join((str(interpreter.parent), found.get("PATH", os.defpath)))
    return found

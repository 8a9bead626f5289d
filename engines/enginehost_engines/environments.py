"""Environments built of requirements: once, kept by what is in them, shared by every host of the machine.

Each is a folder below ``python`` in the host's state folder. It is built at the place where it stays, since
the programs of an environment hold its path; only the mark that comes last makes it one. A folder without
mark is what an interrupted build left, and goes. A lock keeps two hosts from building the same at once.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from enginehost.errors import EngineUnavailable
from enginehost_engines.interpreters import Interpreter, environment_of
from enginehost_engines.requirements import Requirements, without_credentials

_MARK = "enginehost.json"
_LAST_LINES = 8
_LONGEST_LINE = 300
_LOOK_SECONDS = 0.2
_OFFLINE = (
    "temporary failure in name resolution", "name or service not known", "network is unreachable",
    "connection refused", "failed to establish a new connection", "dns error", "nodename nor servname",
    "tunnel connection failed", "proxyerror", "error sending request",
)  # fmt: skip

_FIRST_SECONDS, _LAST_SECONDS = 2.0, 300.0
"""How long a failure counts; twice as long after each further one, up to the second."""
_NOISE = re.compile(
    r"\[notice\]|Looking in |Collecting |Using cached |Downloading |(WARNING: )?Retrying \(|[\s^~]*$",
    re.IGNORECASE,
)
"""Beginnings of lines that never say why an installer failed."""
_ERROR = re.compile(r"ERROR|×")
_OBJECT = re.compile(r"<?\b[\w.]+ object at 0x[0-9a-f]+>?(: )?")

Tell = Callable[[str], None]
"""Hears a line of progress, free of secrets."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of some requirements, whether it is there yet or not."""

    folder: Path
    requirements: Requirements = field(repr=False)
    base: Interpreter

    @property
    def interpreter(self) -> Interpreter:
        """Its Python."""
        return Interpreter(self.folder / "bin" / "python", self.folder / "pyvenv.cfg")

    @property
    def wanted(self) -> Path:
        """The requirements file: what it includes is looked for beside it."""
        files = self.requirements.files
        return files[0] if files else self.folder / "requirements.txt"

    @property
    def is_built(self) -> bool:
        """Whether it is there, whole."""
        return (self.folder / _MARK).is_file()

    @property
    def failure(self) -> str:
        """Why the last attempt to build it failed; empty where none did."""
        return str(self._noted().get("failure", ""))

    @property
    def rests(self) -> bool:
        """Whether the last failure is so fresh that who may wait for later does not try again."""
        attempts = int(self._noted().get("attempts", 0))
        if not attempts:
            return False
        seconds = min(_FIRST_SECONDS * 2.0 ** min(attempts - 1, 20), _LAST_SECONDS)
        return abs(time.time() - self._note.stat().st_mtime) < seconds

    def _noted(self) -> dict[str, Any]:
        try:
            text = self._note.read_text("utf-8")
        except OSError:
            return {}
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            found = {"failure": text, "attempts": 1}
        return found

    @property
    def _note(self) -> Path:
        return self.folder.with_suffix(".failed")

    def note(self, failure: str) -> None:
        """Keep why it could not be built, for who looks later; nothing where it could."""
        if failure:
            attempts = int(self._noted().get("attempts", 0)) + 1
            self._note.write_text(json.dumps({"failure": failure, "attempts": attempts}), "utf-8")
        else:
            self._note.unlink(missing_ok=True)


def environment_for(requirements: Requirements, base: Interpreter, state: Path | None) -> Environment:
    """The environment of requirements on an interpreter; nothing is built."""
    place = state if state is not None else _temporary()
    return Environment(place / "python" / requirements.key(base), requirements, base)


@lru_cache(1)
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="enginehost-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


async def build(environment: Environment, tell: Tell) -> None:
    """Build it, unless it is there; one build serves all who wait for it. Raises ``EngineUnavailable``."""
    builds = _builds.setdefault(asyncio.get_running_loop(), {})
    running = builds.get(environment.folder)
    if running is None or running.task.done():
        running = builds[environment.folder] = _Build(environment)
    try:
        await running.wait(tell)
    finally:
        if not running.hearers and builds.get(environment.folder) is running:
            del builds[environment.folder]


class _Build:
    """One build, which ends when nobody waits for it any more."""

    def __init__(self, environment: Environment) -> None:
        self.hearers: list[Tell] = []
        self.task = asyncio.create_task(_build(environment, self._tell), name="enginehost-python-build")

    async def wait(self, tell: Tell) -> None:
        self.hearers.append(tell)
        try:
            await asyncio.shield(self.task)
        finally:
            self.hearers.remove(tell)
            if not self.hearers and not self.task.done():
                self.task.cancel()
                await asyncio.wait({self.task})

    def _tell(self, line: str) -> None:
        for hearer in tuple(self.hearers):
            hearer(line)


_builds: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, _Build]] = WeakKeyDictionary()


async def _build(environment: Environment, tell: Tell) -> None:
    if environment.is_built:
        return
    try:
        environment.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with _locked(environment.folder.with_suffix(".lock"), tell):
            if not environment.is_built:
                await _build_alone(environment, tell)
    except OSError as error:
        text = f"the environment of PYTHON_REQUIREMENTS cannot be made: {error.strerror}"
        raise EngineUnavailable(text, state="failed", reason=text) from error


@asynccontextmanager
async def _locked(path: Path, tell: Tell) -> AsyncGenerator[None, None]:
    """Hold the lock file, which is left behind: who waits for it has it open already."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        waits = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    tell("another process builds the same environment")
                waits = True
                await asyncio.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


async def _build_alone(environment: Environment, tell: Tell) -> None:
    folder = environment.folder
    await asyncio.to_thread(_remove, folder)
    output = _Output(tell)
    done = False
    try:
        for command in _commands(environment):
            output.begin()
            await _run(command, environment, output)
        _mark(folder)
        environment.note("")
        done = True
    except _CommandFailed as error:
        text = output.explained(error.program)
        environment.note(text)
        raise EngineUnavailable(text, state="failed", reason=text) from None
    finally:
        if not done:
            await asyncio.shield(asyncio.to_thread(_remove, folder))


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _mark(folder: Path) -> None:
    (folder / "requirements.txt").unlink(missing_ok=True)  # it may hold credentials
    fresh = folder / f"{_MARK}.new"
    fresh.write_text(json.dumps({"complete": True}), "utf-8")
    fresh.replace(folder / _MARK)


def _commands(environment: Environment) -> list[list[str]]:
    """By uv where it is there, else by what every Python brings along."""
    folder, base = str(environment.folder), str(environment.base.path)
    python, uv = str(environment.interpreter.path), shutil.which("uv")
    wanted = str(environment.wanted)
    if uv:
        return [
            [uv, "venv", "--python", base, folder],
            [uv, "pip", "install", "--python", python, "-r", wanted],
        ]
    quiet = ["--disable-pip-version-check", "--no-input"]
    return [
        [base, "-m", "venv", folder],
        [python, "-m", "pip", "install", *quiet, "-r", wanted],
    ]


class _CommandFailed(Exception):
    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.program = program


class _Output:
    """What installers say: told line by line, and the end of it kept."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._error = ""
        self._offline = False

    def begin(self) -> None:
        """Another step begins: what the one before said is of no use."""
        self._lines.clear()
        self._error = ""

    async def read(self, stream: asyncio.StreamReader | None) -> None:
        """Hear a process to its end; of a line that never ends, parts."""
        rest = b""
        while stream is not None and (data := await stream.read(_LONGEST_LINE)):
            *whole, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
            if len(rest) > 4 * _LONGEST_LINE:
                whole, rest = [*whole, rest], b""
            for line in whole:
                self._hear(line)
        self._hear(rest)

    def _hear(self, line: bytes) -> None:
        text = without_credentials(_OBJECT.sub("", line.decode("utf-8", "replace").strip()))[:_LONGEST_LINE]
        if text:
            self._offline |= any(sign in text.lower() for sign in _OFFLINE)
            self._tell(text)
            if not _NOISE.match(text):
                self._keep(text)

    def _keep(self, text: str) -> None:
        if not self._error and _ERROR.match(text.upper()):
            self._error = text
            self._lines.clear()  # they tell how far the installer got
        self._lines.append(text)

    def explained(self, program: str) -> str:
        """Why ``program`` failed, as far as it said."""
        lines = list(self._lines)
        if self._error and self._error not in lines:
            lines[0] = self._error
        said = " | ".join(lines)
        why = "the package index cannot be reached; " if self._offline else ""
        return f"PYTHON_REQUIREMENTS cannot be installed: {why}{program} says: {said or 'nothing'}"


async def _run(command: list[str], environment: Environment, output: _Output) -> None:
    """Run one step, and tell its output line by line. Cancelled, it ends with all that it started."""
    if not environment.requirements.files and environment.folder.is_dir():
        _write_wanted(environment)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=environment.requirements.folder,
        env=_variables(environment),
        start_new_session=True,
    )
    try:
        await output.read(process.stdout)
        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise _CommandFailed(Path(command[0]).name if command[1] != "-m" else command[2])


def _write_wanted(environment: Environment) -> None:
    """The requirements as a file beside what is built: on a command line everybody could read them."""
    with os.fdopen(
        os.open(environment.wanted, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(environment.requirements.text)


def _variables(environment: Environment) -> Mapping[str, str]:
    found = environment_of(environment.interpreter.path)
    found.pop("VIRTUAL_ENV", None)
    return {**found, "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}

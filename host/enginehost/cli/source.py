"""Where functions come from: a folder that is loaded here, or a running host."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from enginehost.cli.failures import CommandError
from enginehost.cli.options import DEFAULT_FOLDER
from enginehost.cli.output import from_here, waiting
from enginehost.errors import EngineUnavailable, ExecutionFailed, WaitsForPerson

T = TypeVar("T")

_FRAME = re.compile(r'^ +File "([^"\n]+)", line (\d+), in [^\n]+\n(?: {4,}([^\n]+))?', re.MULTILINE)
"""A frame of a traceback: file, line and, where it is known, what stands there."""

_HOSTS = re.compile("/enginehost(_engines)?/")


class Source(Protocol):
    """What the commands ask of either."""

    async def functions(self, tags: Sequence[str]) -> list[dict[str, Any]]:
        """The functions in short, sorted by name."""
        ...

    async def describe(self, name: str) -> dict[str, Any]:
        """Everything there is to know of a function."""
        ...

    async def spec(self, name: str, kind: str) -> dict[str, Any]:
        """The function's spec of a kind."""
        ...

    async def tools(
        self, kind: str, tags: Sequence[str], query: str = "", most: int | None = None
    ) -> list[dict[str, Any]]:
        """The functions as tools; with a query those that fit it, the best first, at most ``most``."""
        ...

    async def engines(self) -> list[dict[str, Any]]:
        """The engines with their states."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> bytes:
        """The result as JSON."""
        ...

    def stream(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> AsyncIterator[bytes]:
        """The items as they come, each as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class BusPlace:
    """Where on the databus to look, as far as the command line says; the settings say the rest."""

    domain: int | None = None
    interface: str | None = None

    @classmethod
    def given(cls, bus: bool, domain: int | None, interface: str | None) -> Self | None:
        """The place that the options name. Raises :class:`CommandError` for those that go with --bus only."""
        if bus:
            return cls(domain, interface)
        for option, said in (("--domain", domain), ("--bus-interface", interface)):
            if said is not None:
                raise CommandError(f"{option} has no effect without --bus", hint="add --bus, or leave it out")
        return None


@dataclass(frozen=True, slots=True)
class Where:
    """What the command line said about the source."""

    folder: Path
    config: Path | None = None
    url: str | None = None
    token: str | None = None
    bus: BusPlace | None = None

    @classmethod
    def given(
        cls,
        folder: Path | None,
        config: Path | None,
        url: str | None,
        token: str | None,
        path: Path | None = None,
        bus: BusPlace | None = None,
    ) -> Self:
        """The source that the options, and an argument ``path``, name; without any it is the folder ``smss``.

        Raises :class:`CommandError` where they contradict each other: none is passed over.
        """
        if path is not None and folder is not None:
            raise CommandError(f"two folders are given: {path}, and --folder {folder}", hint="leave one out")
        named = {"the folder": path, "--folder": folder, "--config": config}
        for name, given in named.items():
            if url is not None and given is not None:
                raise CommandError(
                    f"{name} {given} has no effect beside --url, which asks a running host",
                    hint="leave one of the two out",
                )
        if bus is not None and (found := url or path or folder):
            raise CommandError(
                f"{found} has no effect beside --bus, which asks the databus", hint="leave one of the two out"
            )
        return cls(path or folder or DEFAULT_FOLDER, config, url, token, bus)

    @property
    def name(self) -> str:
        """The source, as one speaks of it."""
        return "the databus" if self.bus is not None else self.url or str(self.folder)

    @property
    def doctor(self) -> str:
        """The command that examines the same place."""
        if self.bus is not None:
            return shlex.join(["enginehost", "databus", *self.options[1:]])
        options = ["--url", self.url] if self.url else []
        if not self.url and self.folder != DEFAULT_FOLDER:
            options.append(str(self.folder))
        if not self.url and self.config is not None:
            options += ["--config", str(self.config)]
        return shlex.join(["enginehost", "doctor", *options])

    @property
    def options(self) -> list[str]:
        """The options that make a command ask the same source, where it is no folder."""
        if self.bus is None:
            return ["--url", self.url] if self.url else []
        options = ["--bus"]
        options += ["--domain", str(self.bus.domain)] if self.bus.domain is not None else []
        return options + (["--bus-interface", self.bus.interface] if self.bus.interface is not None else [])

    @property
    def validate(self) -> str:
        """The command that loads the code of the folder, and says where it is wrong."""
        options = [] if self.folder == DEFAULT_FOLDER else [str(self.folder)]
        if self.config is not None:
            options += ["--config", str(self.config)]
        return shlex.join(["enginehost", "validate", "--load", *options])

    def chat(self, agent: str, session: str) -> str:
        """The command that goes on with a session here."""
        options = self.options
        if self.bus is None and not self.url and self.folder != DEFAULT_FOLDER:
            options += ["--folder", str(self.folder)]
        if self.config is not None:
            options += ["--config", str(self.config)]
        return shlex.join(["enginehost", "chat", agent, "--session", session, *options])

    def most_bytes(self) -> int:
        """The largest arguments of a call; a running host may have a limit of its own."""
        from enginehost.settings import load_settings

        settings = load_settings(None if self.url else self.folder, config=self.config)
        return settings.http.max_body_bytes

    def open(self) -> AbstractAsyncContextManager[Source]:
        """The source, ready to be asked."""
        if self.bus is not None:
            return _on_bus(self, self.bus)
        return _remote(self) if self.url else _local(self)


@asynccontextmanager
async def _remote(where: Where) -> AsyncGenerator[Source]:
    from enginehost.cli.remote import RemoteSource

    async with RemoteSource(where.url or "", where.token) as source:
        with _hinted(where):
            yield source


@asynccontextmanager
async def _local(where: Where) -> AsyncGenerator[Source]:
    from enginehost.cli.local import FolderSource

    require_folder(where.folder)
    async with FolderSource(where.folder, where.config) as source:
        with _hinted(where):
            yield source


@asynccontextmanager
async def _on_bus(where: Where, bus: BusPlace) -> AsyncGenerator[Source]:
    from enginehost.cli.bus import BusSource

    async with BusSource(where.folder, where.config, bus.domain, bus.interface) as source:
        yield source


@contextmanager
def _hinted(where: Where) -> Generator[None]:
    """Say of an engine that cannot serve where to read more, of a function that raised where it did."""
    try:
        yield
    except ExecutionFailed as error:
        if isinstance(error, WaitsForPerson):
            error.detail["hint"] = _decided_by(where, error)
        if error.__cause__ is not None and (line := _line_of(error.__cause__, where.folder)):
            error.detail.setdefault("hint", f"{line} (`enginehost --debug call …` shows the traceback)")
        raise
    except EngineUnavailable as error:
        if error.detail.get("state") in ("failed", "unsupported"):
            shows = f"`{where.doctor}`" if where.url else f"`{where.validate}`"
            error.detail.setdefault("hint", f"{shows} shows where, and what else is wrong")
        raise


def _decided_by(where: Where, error: ExecutionFailed) -> str:
    """The hint of a call that waits for a person, with the command that asks the same place."""
    session, hint = str(error.detail.get("conversation_id", "")), str(error.detail.get("hint", ""))
    before, command, after = hint.partition("`enginehost chat ")
    agent, mark, rest = after.partition(f" {shlex.join(['--session', session])}`")
    if not command or not mark:
        return hint
    token = " with the same token" if where.url and where.token else ""
    return f"{before}`{where.chat(shlex.split(agent)[0], session)}`{token}{rest}"


def _line_of(error: BaseException, folder: Path) -> str:
    """The line of the author's code that raised: the last one in ``folder``, else the last of no host's."""
    from enginehost.tracebacks import author_traceback

    frames: list[tuple[str, str, str]] = _FRAME.findall(author_traceback(error))
    below = f"{folder.resolve()}/"
    own = [frame for frame in frames if frame[0].startswith(below)]
    theirs = own or [frame for frame in frames if not _HOSTS.search(frame[0])]
    if not theirs:
        return ""
    file, line, code = theirs[-1]
    return f"{from_here(file)}:{line}: {code}".removesuffix(": ")


def require_folder(folder: Path) -> None:
    """Raise :class:`CommandError` unless there is such a folder."""
    if folder.is_dir():
        return
    if folder.exists():
        raise CommandError(f"{folder} is no folder", hint="name the folder that holds the smss files")
    where = "" if folder == DEFAULT_FOLDER else f" --folder {folder}"
    raise CommandError(
        f"there is no folder {folder}",
        hint=f"`enginehost new python hello{where}` makes it, with a first function; or name another folder",
    )


def ask(where: Where, question: Callable[[Source], Coroutine[Any, Any, T]], waiting_for: str) -> T:
    """Open the source and put one question to it."""

    async def answer() -> T:
        async with where.open() as source:
            return await question(source)

    with waiting(waiting_for):
        return asyncio.run(answer())

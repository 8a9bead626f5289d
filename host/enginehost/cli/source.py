"""Where functions come from: a folder that is loaded here, or a running host."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from enginehost.cli.failures import CommandError
from enginehost.cli.output import waiting
from enginehost.errors import EngineUnavailable

T = TypeVar("T")


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

    async def tools(self, kind: str, tags: Sequence[str]) -> list[dict[str, Any]]:
        """The functions as tools."""
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
class Where:
    """What the command line said about the source."""

    folder: Path
    config: Path | None = None
    url: str | None = None
    token: str | None = None

    @property
    def doctor(self) -> str:
        """The command that examines the same place."""
        options = ["--url", self.url] if self.url else []
        if not self.url and str(self.folder) != "smss":
            options.append(str(self.folder))
        if not self.url and self.config is not None:
            options += ["--config", str(self.config)]
        return shlex.join(["enginehost", "doctor", *options])

    def open(self) -> AbstractAsyncContextManager[Source]:
        """The source, ready to be asked."""
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


@contextmanager
def _hinted(where: Where) -> Generator[None]:
    """Say of an engine that cannot serve where to read more."""
    try:
        yield
    except EngineUnavailable as error:
        if error.detail.get("state") == "failed":
            error.detail.setdefault("hint", f"`{where.doctor}` says how to mend it")
        raise


def require_folder(folder: Path) -> None:
    """Raise :class:`CommandError` unless there is such a folder."""
    if folder.is_dir():
        return
    if folder.exists():
        raise CommandError(f"{folder} is no folder", hint="name the folder that holds the smss files")
    where = "" if str(folder) == "smss" else f" --folder {folder}"
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

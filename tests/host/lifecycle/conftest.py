"""Engines that do what their file says, and a folder of them without a watcher."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from enginehost.catalog import Catalog
from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine, HostAccess
from enginehost.entrypoints import ENGINES, Alias
from enginehost.folder import look
from enginehost.lifecycle import Engines
from enginehost.loader import Loader, sources
from enginehost.plugins import PluginRegistry
from enginehost.redaction import Redactor
from enginehost.secrets import Secrets


class PlayConfig(EngineConfig):
    """How the engine behaves."""

    text: str = Field(default="", description="What it answers.")
    opening: str = Field(default="", description="What open() does.")
    closing: str = Field(default="", description="What close() does.")
    telling: str = Field(default="", description="What functions() does.")


class Player(AbstractFunctionEngine):
    """Does what its file says; remembers all that were opened and closed."""

    config_model = PlayConfig
    config: PlayConfig
    opened: ClassVar[list[Player]] = []
    closed: ClassVar[list[Player]] = []
    more: ClassVar[dict[str, list[str]]] = {}
    release: ClassVar[asyncio.Event]

    async def open(self) -> None:
        Player.opened.append(self)
        await behave(self.config.opening)

    async def close(self) -> None:
        Player.closed.append(self)
        await behave(self.config.closing)

    def functions(self) -> Any:
        if self.config.telling == "raises":
            raise RuntimeError("cannot tell")
        if self.config.telling == "lies":
            return ["add"]
        if self.config.telling == "later" and self in Player.opened:
            raise RuntimeError("cannot tell any more")
        mine = self.context.function(self.answer)
        names = Player.more.get(str(self.context.path), [])
        return [mine, *(self.context.function(self.answer, name=name) for name in names)]

    async def answer(self, arguments: dict[str, Any], call: Any) -> str:
        return self.config.text


class AtOnce(AbstractFunctionEngine):
    """Needs no opening; its close is counted like a Player's."""

    config_model = PlayConfig
    config: PlayConfig

    def __init__(self, context: Any, config: Any) -> None:
        super().__init__(context, config)

    async def close(self) -> None:
        Player.closed.append(self)  # type: ignore[arg-type]

    async def execute(self, parameters: dict[str, Any]) -> str:
        return self.config.text


async def behave(how: str) -> None:
    match how:
        case "waits":
            await Player.release.wait()
        case "flag":
            if not Player.release.is_set():
                raise RuntimeError("not yet")
        case "turns":
            await asyncio.sleep(0)
        case "raises":
            raise RuntimeError("not today")
        case "times out":
            raise TimeoutError("the peer is silent")
        case "exits":
            raise SystemExit(3)
        case "cancels":
            raise asyncio.CancelledError
        case "ignores":
            while not Player.release.is_set():
                try:
                    await Player.release.wait()
                except asyncio.CancelledError:
                    continue
        case _:
            return


@dataclass
class World:
    """A folder and what serves it, without a watcher."""

    root: Path
    open_timeout: float = 5.0
    drain_seconds: float = 5.0
    catalog: Catalog = field(default_factory=Catalog)

    def __post_init__(self) -> None:
        redactor = Redactor()
        self.redact = redactor.add
        secrets = Secrets(redactor=redactor)
        registry = PluginRegistry(())
        for name, cls in (("Player", Player), ("AtOnce", AtOnce)):
            registry.add_engine_class(Alias(name, f"tests:{name}", ENGINES, "tests", "1"), cls)
        self.told: list[Path] = []
        loader = Loader(
            registry, secrets, sources(secrets, self.root), HostAccess(), redactor, self.told.append
        )
        self.engines = Engines(
            self.catalog,
            loader,
            self.root,
            open_timeout=self.open_timeout,
            drain_seconds=self.drain_seconds,
        )

    async def catch_up(self) -> None:
        """Update to what the folder holds now, as the watcher would."""
        files = look(self.root).files
        known = self.engines.files
        changed = {path: seen for path, seen in files.items() if known.get(path) != seen}
        await self.engines.update(changed, [path for path in known if path not in files])

    async def settled(self) -> None:
        assert await self.engines.opened(20)

    def serving(self) -> dict[str, tuple[str, str]]:
        """Name → the file that serves it and its text."""
        found: dict[str, tuple[str, str]] = {}
        for entry in self.catalog:
            engine: Any = entry.record.engine
            assert engine is not None
            assert engine not in Player.closed
            found[entry.name] = (entry.record.path.relative_to(self.root).as_posix(), engine.config.text)  # type: ignore[union-attr]
        return found

    def shown(self) -> dict[str, tuple[str, str, list[str]]]:
        """Engine id → its file, state and the codes of its findings."""
        assert all(engine_id == record.engine_id for engine_id, record in self.catalog.records.items())
        return {
            engine_id: (
                record.path.relative_to(self.root).as_posix(),  # type: ignore[union-attr]
                str(record.state),
                sorted(found.code for found in record.diagnostics),
            )
            for engine_id, record in self.catalog.records.items()
        }


@contextmanager
def a_world(**options: Any) -> Iterator[World]:
    Player.opened, Player.closed, Player.more = [], [], {}
    Player.release = asyncio.Event()
    with tempfile.TemporaryDirectory() as folder:
        yield World(Path(folder), **options)


def smss(name: str, text: str = "", kind: str = "Player", **keys: str) -> str:
    lines = [
        f"ENGINE_CLASS = {kind}",
        f"FUNCTION_NAME = {name}",
        "FUNCTION_DESCRIPTION = d",
        f"TEXT = {text}",
    ]
    return "\n".join((*lines, *(f"{key.upper()} = {value}" for key, value in keys.items()), ""))


async def load_one(world: World, **keys: str) -> None:
    (world.root / "a.smss").write_text(smss("f", **keys))
    await world.catch_up()

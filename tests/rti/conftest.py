"""RTI's own Connext beside us: opt-in (``make interop-rti``), for its licence is a non-commercial one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.rti.configuration import configuration, entity

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".peers" / "rti" / "bin" / "python"
PATIENCE = 12.0

_rows = pytest.StashKey[list[tuple[str, str]]]()


class RtiPeer:
    """The program ``peer.py``, and everything that it said, with when."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._heard = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._heard:
                self.events.append(json.loads(line) | {"at": time.monotonic()})
                self._heard.notify_all()

    def order(self, order: str, **about: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"order": order, **about}).encode() + b"\n")

    def write(self, topic: str, values: dict[str, Any], action: str = "write") -> None:
        self.order("write", topic=entity(topic), values=values, action=action)

    async def until(self, holds: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(PATIENCE), self._heard:
                await self._heard.wait_for(holds)
        except TimeoutError:
            pytest.fail(f"RTI's side said only {self.events}")

    async def says(self, event: str) -> dict[str, Any]:
        await self.until(lambda: [one for one in self.events if one["event"] == event])
        return next(one for one in self.events if one["event"] == event)

    def samples(self, topic: str) -> list[dict[str, Any]]:
        wanted = entity(topic)
        return [one for one in self.events if one["event"] == "sample" and one["topic"] == wanted]

    def last(self, topic: str, key: str) -> dict[str, dict[str, Any]]:
        """The last sample of each instance."""
        return {one["values"][key]: one for one in self.samples(topic)}

    async def leave(self) -> None:
        if self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            async with asyncio.timeout(PATIENCE):
                assert await self.process.wait() == 0
                await self._listening


Rti = Callable[..., AbstractAsyncContextManager[RtiPeer]]


@pytest.fixture
def rti(dds_domain: int, tmp_path: Path) -> Rti:
    """``async with rti(writers=[topic…], readers=[topic…]) as peer``."""
    if not PYTHON.exists():
        pytest.skip("RTI's connector is not installed: make interop-rti")

    @asynccontextmanager
    async def start(
        writers: list[str] | None = None, readers: list[str] | None = None, **more: Any
    ) -> AsyncGenerator[RtiPeer]:
        given = tmp_path / f"peer-{time.monotonic_ns()}.xml"
        given.write_text(configuration(dds_domain, writers or [], readers or [], **more), encoding="utf-8")
        names = (",".join(map(entity, names or [])) for names in (writers, readers))
        process = await asyncio.create_subprocess_exec(
            str(PYTHON), str(Path(__file__).with_name("peer.py")), str(given), *names,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24, cwd=tmp_path,
        )  # fmt: skip
        peer = RtiPeer(process)
        try:
            await peer.says("ready")
            yield peer
            await peer.leave()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return start


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``measured(what, figure)``: a row of the table at the end."""
    rows = request.config.stash.setdefault(_rows, [])
    return lambda what, figure: rows.append((what, figure))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(_rows, [])
    if rows:
        terminalreporter.section("with RTI Connext 6.1")
    for what, figure in rows:
        terminalreporter.write_line(f"{what:<72} {figure}")

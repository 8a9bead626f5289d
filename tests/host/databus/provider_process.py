"""The program ``provider.py``: a host in a process of its own, which is told what to do."""

from __future__ import annotations

import json
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from .processes import ends_well, line_of, running_program


class Provider:
    """The program, and what it answers."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ask(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        return await self.heard()

    async def heard(self) -> dict[str, Any]:
        return json.loads(await line_of(self.process))

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        await ends_well(self.process)


@asynccontextmanager
async def provider(domain: int, *options: str) -> AsyncIterator[Provider]:
    """A host that is ready. It must stop without an error, unless the test kills it."""
    program = Path(__file__).with_name("provider.py")
    async with running_program(str(program), str(domain), *options) as process:
        made = Provider(process)
        assert (await made.heard())["event"] == "ready"
        yield made
        if process.returncode is None:
            await made.stop()

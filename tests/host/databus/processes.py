"""Python programs beside a test, with pipes, which do not outlive it."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE = 20.0


@asynccontextmanager
async def running_program(*words: str) -> AsyncIterator[Process]:
    """``python words…``; what still runs at the end is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=PIPE, stdout=PIPE, limit=1 << 20
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line_of(process: Process) -> bytes:
    """The next line that a program says."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return await process.stdout.readline()


async def ends_well(process: Process) -> None:
    """Close the input of a program that ends with it, and see that it does."""
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 0

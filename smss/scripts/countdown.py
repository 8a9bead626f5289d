"""A function that streams: every `yield` is an item that the caller sees at once."""

import asyncio
from collections.abc import AsyncIterator


async def countdown(start: int, seconds: float = 0.2) -> AsyncIterator[int]:
    """Count down to zero."""
    for number in range(start, 0, -1):
        yield number
        await asyncio.sleep(seconds)
    yield 0

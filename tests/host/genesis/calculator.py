"""A service as its author writes it; run as a program it offers itself."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from enginehost import Service, tool
from enginehost.engine import Call


@dataclass
class Point:
    x: float
    y: float = 0.0


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class CalculatorService(Service):
    """Reckons.

    Whole numbers and points.
    """

    tags = ("math",)

    def __init__(self) -> None:
        super().__init__()
        self.began = 0

    async def on_start(self) -> None:
        self.began += 1
        say("on_start")

    def on_stop(self) -> None:
        say("on_stop")

    @tool
    async def add(self, a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    @tool(read_only=True)
    def mirror(self, point: Point) -> Point:
        """Mirror a point at the origin."""
        return Point(-point.x, -point.y)

    @tool
    async def count(self, up_to: int) -> AsyncIterator[int]:
        """Count up."""
        for number in range(up_to):
            yield number

    @tool
    def slowly(self, words: list[str]) -> Iterator[str]:
        """Say words one by one."""
        yield from words

    @tool
    def divide(self, a: float, b: float) -> float:
        """Divide."""
        return a / b

    @tool(timeout=0.3)
    async def hang(self) -> None:
        """Never answer."""
        await asyncio.Event().wait()

    @tool(timeout=0.3)
    def sleep(self) -> None:
        """Answer too late, on a thread."""
        time.sleep(1.0)

    @tool
    async def started(self) -> int:
        """How often it has been started."""
        return self.began

    @tool
    async def who(self, call: Call) -> str:
        """Who calls."""
        return call.caller.face


if __name__ == "__main__":
    asyncio.run(CalculatorService().run())

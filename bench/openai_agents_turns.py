"""A turn of the OpenAI Agents SDK with its SQLite session; run by its own interpreter.

``openai_agents_turns.py URL HISTORY TURNS FOLDER`` prints milliseconds a turn and megabytes.
"""

# pyright: reportMissingImports=false - the peer's interpreter has them
from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, set_tracing_disabled
from openai import AsyncOpenAI

TEXT = "x" * 200


async def main(url: str, history: str, turns: str, folder: str) -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{url}/short/v1", api_key="x", max_retries=0)
    agent = Agent(name="bench", model=OpenAIChatCompletionsModel("bench-1", client))
    session = SQLiteSession("one", Path(folder, "agents.db"))
    items: list[Any] = [{"role": ("user", "assistant")[n % 2], "content": TEXT} for n in range(int(history))]
    await session.add_items(items)
    seconds: list[float] = []
    for _ in range(3 + int(turns)):
        begin = perf_counter()
        found = await Runner.run(agent, TEXT, session=session)
        seconds.append(perf_counter() - begin)
        assert found.final_output
    print(median(seconds[3:]) * 1e3, resident())


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

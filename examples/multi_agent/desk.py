"""The interface: puts questions to whoever answers by default, and prints what comes.

Usage: python desk.py QUESTION …
"""

from __future__ import annotations

import asyncio
import sys

from enginehost import Interface
from enginehost.errors import EngineHostError

EXPECTED = ("Primary", "Weather")


async def main(questions: list[str]) -> int:
    failed = 0
    async with Interface("desk") as ui:
        for service in EXPECTED:
            await ui.wait_for(service, 30)
        for agent in ui.agents:
            print(f"there is {agent.service}: {agent.description}", flush=True)
        for question in questions:
            print(f"\n> {question}", flush=True)
            try:
                print(await ui.ask(question, timeout=60), flush=True)
            except EngineHostError as error:
                failed += 1
                print(f"{error.code}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))

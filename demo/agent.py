"""Chat with a small real model through the agent in ``demo/smss``.

Usage::

    python demo/agent.py [MESSAGE …]

Each message is a turn of one session. ``make demo-agent`` installs what it needs; nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from enginehost import Host
from enginehost.agents.session import AgentSession
from enginehost.llm.message import Role, Type
from enginehost.settings import HostSettings

HERE = Path(__file__).parent
MESSAGES = ("What is the capital of France?", "Which river flows through it?")


@contextmanager
def model() -> Generator[str]:
    """The address of the model, in a process of its own that ends with this one."""
    command = [sys.executable, str(HERE / "serve_smollm.py")]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    server = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=nowhere)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            raise SystemExit("the model's server did not start; try: python demo/serve_smollm.py")
        yield address
    finally:
        server.kill()
        server.wait()


async def turn(session: AgentSession, text: str, at: str) -> str:
    """Say something and print the answer as it comes; gives the place after the turn."""
    print(f"\nyou: {text}\nassistant: ", end="", flush=True)
    begin, shown = perf_counter(), ""
    await session.write(text)
    async for event in session.events(at):
        message = event.message
        if message is not None and message.role is Role.ASSISTANT and message.type is Type.TEXT:
            shown += message.content
            print(message.content, end="", flush=True)
        if event.run is not None and event.run.state.ended:
            used = event.run.usage
            if event.run.error:
                raise SystemExit(f"the turn failed: {event.run.error['message']}")
            tokens = f"{used.input + used.cached} tokens in, {used.output} out, " if used else ""
            print(f"\n({tokens}{perf_counter() - begin:.1f} s)")
            return str(event.at)
    return at


async def chat(messages: tuple[str, ...], state: Path) -> None:
    """A session with these messages."""
    async with Host(HERE / "smss", None, settings=HostSettings(state_dir=state), watch=False) as host:
        session = await (await host.agents()).start(agent="assistant")
        at = "0.0"
        for text in messages:
            at = await turn(session, text, at)


def main() -> None:
    with model() as address, tempfile.TemporaryDirectory() as state:
        os.environ["SMOLLM_URL"] = address
        asyncio.run(chat(tuple(sys.argv[1:]) or MESSAGES, Path(state)))


if __name__ == "__main__":
    main()

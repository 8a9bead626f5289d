"""A host in a process of its own: ``host.py DOMAIN SERVICE FOLDER STATE``, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from enginehost import Host, HostSettings
from enginehost.databus import DatabusConfig


async def main(domain: str, service: str, folder: str, state: str) -> None:
    config = DatabusConfig(domain=int(domain), service=service, state_dir=Path(state))
    async with Host(folder, config, settings=HostSettings(state_dir=Path(state)), watch=False):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

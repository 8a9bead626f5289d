"""Hosts and clients on Connext and on the host's own transport see and call each other.

Needs the plugin installed, and a full licence: a limited one refuses the participants of other vendors.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from enginehost import Host, HostSettings
from enginehost.databus import Client, DatabusConfig

pytestmark = pytest.mark.skipif(
    not os.environ.get("RTI_LICENSE_FILE"), reason="does not apply: RTI_LICENSE_FILE names no licence"
)
PATIENCE = 20.0
ADD = "ENGINE_CLASS = LocalPython\nFUNCTION_NAME = add\nPYTHON_SCRIPT_PATH = add.py\n"


@pytest.mark.parametrize(
    ("served", "asked"), [("connext", "cyclone"), ("cyclone", "connext"), ("connext", "connext")]
)
async def test_a_client_calls_a_host_on_the_other_transport_and_sees_it_go(
    served: str, asked: str, tmp_path: Path
) -> None:
    (tmp_path / "add.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n", encoding="utf-8")
    (tmp_path / "add.smss").write_text(ADD, encoding="utf-8")
    domain = random.randint(60, 95)
    host = Host(
        tmp_path,
        settings=HostSettings(state_dir=tmp_path / "state"),
        databus=DatabusConfig(domain=domain, service="math", transport=served),
    )
    async with Client(domain=domain, transport=asked) as client:
        async with host:
            async with asyncio.timeout(PATIENCE):
                while not client.functions("math"):  # noqa: ASYNC110 - a client tells nobody
                    await asyncio.sleep(0.02)
                assert await client.call("math.add", {"a": 1, "b": 2}) == 3
        async with asyncio.timeout(PATIENCE):
            while client.functions("math"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

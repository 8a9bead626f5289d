"""Worker processes are shared by all Python engines of a host: what one may not take from another."""

from __future__ import annotations

import asyncio
from pathlib import Path

from enginehost import Host, HostSettings
from enginehost.errors import CallTimeout


async def test_imports_that_hang_do_not_keep_others_from_a_worker(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"hangs{number}.py").write_text("import time\ntime.sleep(1000)\ndef f():\n    return 1\n")
        (tmp_path / f"hangs{number}.smss").write_text(
            f"ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=hangs{number}.py\nPYTHON_FUNCTION_NAME=f\n"
            f"FUNCTION_NAME=hangs{number}\nFUNCTION_DESCRIPTION=d\nTIMEOUT_SECONDS=0.5\n"
        )
    (tmp_path / "good.py").write_text("def f():\n    return 1\n")
    (tmp_path / "good.smss").write_text(
        "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=good.py\nPYTHON_FUNCTION_NAME=f\n"
        "FUNCTION_NAME=good\nFUNCTION_DESCRIPTION=d\n"
    )
    settings = HostSettings(max_workers=4)
    async with Host(tmp_path, None, settings=settings, watch=False) as host:
        calls = [host.call(f"hangs{number}") for number in range(4)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(failure) for failure in failures} == {CallTimeout}
        assert await host.call("good", timeout=30) == 1

"""A program whose settings are wrong says so in a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
from enginehost import Service, tool
from enginehost.errors import ConfigError

class Shop(Service):
    @tool
    def act(self) -> int:
        return 1

"""
RUNS = "asyncio.run(Shop().run())"
CATCHES = """
try:
    asyncio.run(Shop().run())
except ConfigError as error:
    print("caught", error.code)
"""


@pytest.mark.parametrize(("ending", "code"), [(RUNS, 78), (CATCHES, 0), (f"{CATCHES}\nraise KeyError", 1)])
def test_an_error_that_nobody_caught_is_a_line_and_one_that_was_caught_is_the_programs(
    tmp_path: Path, ending: str, code: int
) -> None:
    environment = {**os.environ, "ENGINEHOST_DATABUS__ENABLED": "false"}
    command = [sys.executable, "-c", PROGRAM + ending]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: Shop runs alone, ") is (code == 78)
    assert ("Traceback" in done.stderr) is (code == 1)
    assert ("caught config" in done.stdout) is (ending != RUNS)

"""Other people's programs that the tests talk to."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

INSTALLED = Path(__file__).parents[2] / ".peers" / "aimock"
START_SECONDS = 60.0


@pytest.fixture
def aimock(tmp_path: Path) -> Iterator[Callable[[Any], str]]:
    """``aimock(fixtures)``: the address of npm's ``@copilotkit/aimock``, which answers as they say."""
    program = shutil.which("aimock", path=str(INSTALLED / "node_modules" / ".bin")) or shutil.which("llmock")
    if program is None:
        pytest.skip("aimock is not installed: npm install --prefix .peers/aimock @copilotkit/aimock")
    running: list[subprocess.Popen[bytes]] = []

    def start(fixtures: Any) -> str:
        file = tmp_path / "fixtures.json"
        file.write_text(json.dumps({"fixtures": fixtures}))
        port = _free_port()
        command = [program, "-p", str(port), "-f", str(file), "--strict", "--log-level", "silent"]
        if Path(program).name == "aimock":
            command[0] = str(Path(program).with_name("llmock"))
        running.append(subprocess.Popen(command))
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, running[-1])
        return url

    yield start
    for process in running:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(f"{url}/v1/models", timeout=5):
                return
        except (URLError, OSError):
            assert process.poll() is None, "aimock did not start"
            assert time.monotonic() < until, "aimock does not answer"
            time.sleep(0.05)

"""The folder ``smss/`` that ships with the project: what a newcomer has after ``make run``."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from .conftest import Cli, running

SHIPPED = Path(__file__).parents[3] / "smss"
CALLS: tuple[tuple[str, dict[str, Any], Any], ...] = (
    ("add", {"a": 1, "b": 2.5}, 3.5),
    ("countdown", {"start": 3, "seconds": 0}, [3, 2, 1, 0]),
    ("countdown", {"start": 0}, [0]),
    ("order_total", {"prices": [19.9, 5], "discount": 0.1}, {"items": 2, "total": 22.41}),
    ("order_total", {"prices": [19.9, 5]}, {"items": 2, "total": 24.9}),
    (
        "assistant",
        {"message": "What does my order cost?"},
        'That is your order, with ten percent off: {"items":2,"total":22.41}',
    ),
    ("current_weather", {"city": "Berlin"}, {"temperature": 14.5, "wind": 12.0, "sky": "clouds"}),
    (
        "current_weather",
        {"city": "Reykjavík", "units": "imperial"},
        {"temperature": 38.3, "wind": 19.3, "sky": "rain"},
    ),
)


@contextmanager
def weather_service(folder: Path) -> Generator[str]:
    """The service that the folder ships, started as its file says, on a free port; gives the port."""
    service = subprocess.Popen(
        [sys.executable, "smss/services/weather_service.py", "0"],
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert service.stdout is not None
        found = re.search(r":(\d+)/", service.stdout.readline())
        assert found is not None
        yield found[1]
    finally:
        service.terminate()
        service.communicate(timeout=30)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder, with its weather service running; only the service's port is another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "smss"
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with weather_service(folder) as port:
        file = folder / "current_weather.smss"
        text = file.read_text(encoding="utf-8")
        assert text.count(":8585\n") == 1
        file.write_text(text.replace(":8585\n", f":{port}\n"), encoding="utf-8")
        yield folder


def answer(url: str, arguments: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(arguments).encode(), headers), timeout=60) as given:
        return json.load(given)


def test_one_host_serves_every_function_of_the_shipped_folder_with_the_right_answers(shipped: Path) -> None:
    files = {file.stem for file in shipped.rglob("*.smss")}
    assert {name for name, _, _ in CALLS} == files - {"demo_model"}  # which offers no function
    with running(shipped) as host:
        ready = host.events[-1]
        assert (ready["functions"], ready["problems"]) == (len({name for name, _, _ in CALLS}), 0)
        for name, arguments, result in CALLS:
            assert answer(f"{host.url}/v1/functions/{name}", arguments) == {"result": result}
        host.signal(signal.SIGTERM)
        assert host.ended() == 0


def test_the_shipped_folder_has_no_finding(shipped: Path, cli: Cli) -> None:
    done = cli("validate", str(shipped), "--strict", "--json")
    assert (done.code, done.json["diagnostics"]) == (0, [])

"""What a running host tells its operator: in the log, over HTTP, and by ``doctor --url``."""

from __future__ import annotations

import json
import os
import signal
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from enginehost import Host
from enginehost.cli import startup
from enginehost.serve import HttpServer

from .conftest import ADD, Cli, Running, program, running, write

TOKEN = "correct-horse-battery-staple"


def engines(url: str) -> dict[str, dict[str, Any]]:
    with urlopen(f"{url}/v1/engines", timeout=30) as answer:
        return {engine["id"]: engine for engine in json.load(answer)["engines"]}


def test_a_file_whose_function_name_is_taken_is_told_everywhere_and_once(folder: Path, cli: Cli) -> None:
    with running(folder) as host:
        write(folder, {"add2.smss": ADD + "    TIMOUT_SECONDS = 3\n"})
        problems = {host.next_event("problem")["code"]: host.events[-1] for _ in range(2)}
        assert problems["unknown-key"]["line"] == 9
        assert problems["name-conflict"]["path"] == str(folder / "add2.smss")
        shown = engines(host.url)["add2"]
        assert (shown["state"], shown["functions"]) == ("conflict", [])
        assert shown["reason"] == "the name 'add' is taken: add.smss declares it too, and keeps it"
        assert {one["code"] for one in shown["problems"]} == {"unknown-key", "name-conflict"}
        assert str(folder) not in json.dumps(shown)
        done = cli("doctor", "--url", host.url)
        assert done.code == 0
        assert "add2 is conflict: the name 'add' is taken" in done.out
        assert "add2: the key TIMOUT_SECONDS has no effect [add2.smss:9:1]" in " ".join(done.out.split())
        assert "did you mean TIMEOUT_SECONDS?" in done.out
        os.utime(folder / "add2.smss")
        write(folder, {"later.smss": ADD.replace("= add", "= later\n    PYTHON_FUNCTION_NAME = add")})
        _until(host, "loaded later.smss")
        (folder / "add.smss").unlink()
        _until(host, "serves now: add2.smss (add)")
        assert engines(host.url)["add2"]["state"] == "ready"
        assert [event["code"] for event in host.events if event["event"] == "problem"].count(
            "unknown-key"
        ) == 1


def _until(host: Running, text: str) -> None:
    while text not in host.next_event("log")["message"]:
        pass


def test_code_that_cannot_be_loaded_says_where_in_every_place(folder: Path, cli: Cli) -> None:
    write(folder, {"own.smss": ADD.replace("= add", "= own").replace("tools.py", "own.py")})
    write(folder, {"own.py": "def own(a, b=1):\n    return a\n\nimport nosuchmodule\n"})
    said = "own.py:4: ModuleNotFoundError: No module named 'nosuchmodule'"
    local = cli("call", "own", "a=1")
    assert said in local.err
    assert "`enginehost validate --load`" in local.err
    assert said in cli("validate", "--load").out
    assert "`enginehost validate --load`" in cli("doctor").out
    with running(folder) as host:
        remote = cli("call", "own", "a=1", "--url", host.url)
        assert said in remote.err
        problem = host.next_event("problem")
        assert said in problem["message"]
        assert problem["exception"].splitlines() == [
            "Traceback (most recent call last):",
            f'  File "{folder}/own.py", line 4, in <module>',
            "    import nosuchmodule",
            "ModuleNotFoundError: No module named 'nosuchmodule'",
        ]
        shown = engines(host.url)["own"]
        assert shown["reason"].endswith(said)
        done = cli("doctor", "--url", host.url)
        assert done.code == 1
        assert said in done.out
        assert "`enginehost validate --load`" in done.out
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
    assert len([event for event in host.events if said in str(event.get("message"))]) == 1


def test_a_call_that_fails_logs_the_frames_of_its_author(folder: Path) -> None:
    with running(folder) as host:
        done = program("call", "fail", "--url", host.url, cwd=folder.parent)
        assert done.returncode == 1
        cause = host.next_event("call")["cause"]
    assert [line for line in cause.splitlines() if "File" in line] == [
        f'  File "{folder}/tools.py", line 12, in fail'
    ]


def test_doctor_says_where_it_may_not_look(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "enginehost.yaml").write_text("tokens: [{name: ci, token_env: CI_TOKEN}]\n")
    monkeypatch.setenv("CI_TOKEN", TOKEN)
    with running(folder) as host:
        blind = cli("doctor", "--url", host.url)
        assert "not looked at" in blind.out
        assert "--token" in blind.out
        assert "all is well" not in blind.out
        assert "all is well" in cli("doctor", "--url", host.url, "--token", TOKEN).out


def test_a_host_that_other_machines_reach_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "enginehost.yaml").write_text("tokens: [{name: ci, token_env: CI_TOKEN}]\n")
    monkeypatch.setenv("CI_TOKEN", TOKEN)
    with running(folder, "--http", "0.0.0.0:0") as host:
        listening, ready = host.events[0], host.events[-1]
        port = host.url.rpartition(":")[2]
        assert listening["address"] == ready["address"] == f"0.0.0.0:{port}"
        assert host.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(("address", "told"), [("0.0.0.0:8484", True), ("127.0.0.1:8484", False)])
def test_the_page_says_whether_other_machines_reach_the_host(folder: Path, address: str, told: bool) -> None:
    host = Host(folder, None)
    page = startup.page(host, HttpServer(host, address), 0.1, StringIO())
    assert "http://127.0.0.1:8484" in page
    assert ("other machines reach it too: it listens on 0.0.0.0:8484" in page) is told

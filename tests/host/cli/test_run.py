"""``enginehost run``: start, readiness, drain, stop."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from enginehost.address import binding_hint
from enginehost.cli.log import ForPeople, JsonLines

from .conftest import (
    ADD,
    BROKEN,
    SLOW,
    SLOW_SCRIPT,
    TRUSTED,
    Running,
    program,
    run_until_its_page,
    running,
    write,
)

HOLD = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = hold.py
    PYTHON_ISOLATION = none
    FUNCTION_NAME = hold
    FUNCTION_DESCRIPTION = Answer when the file `go` is there.
"""
HOLD_SCRIPT = """
    import asyncio
    from pathlib import Path

    released = None

    async def hold():
        global released
        if released is None:
            released = asyncio.create_task(go())
        await asyncio.shield(released)
        return "held"

    async def go():
        while not Path({path!r}).exists():
            await asyncio.sleep(0.02)
"""
CALLS = 1000


def get(url: str) -> tuple[int, bytes]:
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture
def go(folder: Path) -> Path:
    """The file that lets the functions ``hold`` and ``slow`` go on."""
    path = folder.parent / "go"
    write(folder, {"hold.smss": HOLD, "hold.py": HOLD_SCRIPT.format(path=str(path))})
    return path


def test_it_serves_until_sigterm_and_ends_with_0(folder: Path) -> None:
    with running(folder) as host:
        ready = host.events[-1]
        assert ready["functions"] == 4
        assert ready["problems"] == 0
        assert get(f"{host.url}/readyz") == (200, b'{"status":"ready"}')
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
        assert [event["event"] for event in host.events][-2:] == ["stopping", "stopped"]


def _listens(host: Running) -> bool:
    """Whether the process has a TCP socket that waits for connections."""
    process = Path(f"/proc/{host.process.pid}")
    table = (process / "net/tcp").read_text() + (process / "net/tcp6").read_text()
    listening = {f"socket:[{one[9]}]" for line in table.splitlines() if (one := line.split())[3] == "0A"}
    files = set[str]()
    for file in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            files.add(str(file.readlink()))
    return not files.isdisjoint(listening)


def test_without_http_it_listens_nowhere_and_follows_its_folder(folder: Path) -> None:
    seen = {"ENGINEHOST_DEBUGGABLE": "true"}  # else /proc shows its files to nobody but root
    with running(folder, env=seen) as host:
        assert _listens(host)
    with running(folder, "--no-http", env=seen) as host:
        ready = host.events[-1]
        assert (ready["http"], ready["address"], ready["functions"]) == (None, None, 4)
        assert "listening" not in {event["event"] for event in host.events}
        assert not _listens(host)
        more = ADD.replace("= add", "= more") + "    PYTHON_FUNCTION_NAME = add\n"
        write(folder, {"more.smss": more})
        while "more" not in host.next_event("log").get("message", ""):
            pass
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
        assert host.events[-1]["event"] == "stopped"


def test_without_http_the_page_says_so(folder: Path) -> None:
    done = run_until_its_page(folder, "import os", "os.environ['ENGINEHOST_HTTP__ENABLED'] = 'false'")
    assert done.returncode == 0
    assert "http     off" in done.stderr
    assert "http://" not in done.stderr
    assert "Traceback" not in done.stderr


def test_sigint_ends_it_alike(folder: Path) -> None:
    with running(folder) as host:
        host.signal(signal.SIGINT)
        assert host.ended() == 0


def test_who_asks_while_it_loads_hears_loading(folder: Path, go: Path) -> None:
    write(folder, {"slow.smss": SLOW, "slow.py": SLOW_SCRIPT.format(path=str(go))})
    with running(folder, env=TRUSTED, until="listening") as host:
        assert get(f"{host.url}/readyz") == (503, b'{"status":"loading"}')
        go.touch()
        host.next_event("ready")
        assert get(f"{host.url}/readyz")[0] == 200


def test_sigterm_while_it_loads_ends_it(folder: Path, go: Path) -> None:
    write(folder, {"slow.smss": SLOW, "slow.py": SLOW_SCRIPT.format(path=str(go))})
    with running(folder, "--drain", "0.1", env=TRUSTED, until="listening") as host:
        host.signal(signal.SIGTERM)
        host.next_event("stopping")
        go.touch()
        assert host.ended() == 0


async def _call(place: tuple[str, int], function: str = "hold") -> tuple[int, bytes]:
    """One call on a connection of its own, to its last byte."""
    reader, writer = await asyncio.open_connection(*place)
    try:
        writer.write(
            b"POST /v1/functions/%b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" % function.encode()
            + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def _in_flight(host: Running, calls: int) -> list[asyncio.Task[tuple[int, bytes]]]:
    """Start so many calls, and wait until the host has them all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * calls:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * calls, hard), hard))
    parts = urlsplit(host.url)
    place = (str(parts.hostname), int(parts.port or 0))
    tasks = [asyncio.create_task(_call(place)) for _ in range(calls)]
    async with asyncio.timeout(60):
        while True:
            _, metrics = await asyncio.to_thread(get, f"{host.url}/metrics")
            if b"enginehost_calls_in_flight %d\n" % calls in metrics:
                return tasks
            await asyncio.sleep(0.05)


async def test_a_thousand_calls_in_flight_at_sigterm_are_all_answered(folder: Path, go: Path) -> None:
    with running(folder, "--drain", "60", env=TRUSTED) as host:
        tasks = await _in_flight(host, CALLS)
        host.signal(signal.SIGTERM)
        stopping = await asyncio.to_thread(host.next_event, "stopping")
        assert stopping["calls"] == CALLS
        assert get(f"{host.url}/readyz") == (503, b'{"status":"draining"}')
        late = asyncio.create_task(_call(_place(host)))
        assert (await late)[0] == 503
        go.touch()
        answers = await asyncio.gather(*tasks)
        assert await asyncio.to_thread(host.ended) == 0
    assert answers == [(200, b'{"result":"held"}')] * CALLS


async def test_a_thousand_calls_that_do_not_end_in_time_are_all_answered(folder: Path, go: Path) -> None:
    with running(folder, "--drain", "0.2", env=TRUSTED) as host:
        tasks = await _in_flight(host, CALLS)
        host.signal(signal.SIGTERM)
        answers = await asyncio.gather(*tasks)
        assert await asyncio.to_thread(host.ended) == 0
    assert {status for status, _ in answers} == {502}
    assert all(json.loads(body)["code"] == "outcome_unknown" for _, body in answers)


async def test_to_drain_for_no_time_is_no_error(folder: Path) -> None:
    in_worker = HOLD.replace("PYTHON_ISOLATION = none", "")
    write(folder, {"hold.smss": in_worker, "hold.py": HOLD_SCRIPT.format(path=str(folder / "never"))})
    with running(folder, "--drain", "0") as host:
        tasks = await _in_flight(host, 2)
        host.signal(signal.SIGTERM)
        assert {status for status, _ in await asyncio.gather(*tasks)} <= {502, 503}  # begun, or not
        assert await asyncio.to_thread(host.ended) == 0
    assert not [event for event in host.events if event["event"] == "log"]


def _place(host: Running) -> tuple[str, int]:
    parts = urlsplit(host.url)
    return str(parts.hostname), int(parts.port or 0)


BLOCK = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = block.py
    PYTHON_ISOLATION = none
    FUNCTION_NAME = block
    FUNCTION_DESCRIPTION = Hold up the whole host.
"""
BLOCK_SCRIPT = """
    from pathlib import Path

    async def block():
        Path({path!r}).touch()
        while True:
            pass
"""


async def _kill(host: Running) -> None:
    """SIGTERM until it has ended: those of the first second count as the first one."""
    while host.process.poll() is None:
        host.signal(signal.SIGTERM)
        await asyncio.sleep(0.1)
    assert await asyncio.to_thread(host.ended) == 128 + signal.SIGTERM


def _outcomes(lines: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["function"], line["outcome"]) for line in lines if line["event"] in ("call", "audit")]


async def test_a_second_signal_stops_at_once_and_leaves_records(folder: Path, go: Path) -> None:
    audit = folder.parent / "audit.jsonl"
    env = {**TRUSTED, "ENGINEHOST_AUDIT": str(audit)}
    with running(folder, "--drain", "600", env=env) as host:
        tasks = await _in_flight(host, 3)
        host.signal(signal.SIGTERM)
        await asyncio.to_thread(host.next_event, "stopping")
        await _kill(host)
        await asyncio.gather(*tasks, return_exceptions=True)
    assert host.events[-1]["event"] == "killed"
    assert host.events[-1]["calls"] == 3
    assert _outcomes(host.events) == [("hold", "outcome_unknown")] * 3
    assert _outcomes(map(json.loads, audit.read_text().splitlines())) == [("hold", "outcome_unknown")] * 3


async def test_a_second_signal_stops_a_host_that_hangs_and_names_the_call(
    folder: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "blocks"
    write(folder, {"block.smss": BLOCK, "block.py": BLOCK_SCRIPT.format(path=str(mark))})
    with running(folder, "--drain", "600", env=TRUSTED) as host:
        task = asyncio.create_task(_call(_place(host), "block"))
        while not mark.exists():
            await asyncio.sleep(0.02)
        await _kill(host)
        await asyncio.gather(task, return_exceptions=True)
    assert _outcomes(host.events) == [("block", "outcome_unknown")]
    assert host.events[-1]["calls"] == 1


_SIGNALLED = """
import os, sys

class Signal:
    def find_spec(self, name, path, target=None):
        if name in signals:
            os.kill(os.getpid(), signals[name])

signals = {signals!r}
sys.meta_path.insert(0, Signal())
sys.argv = ["enginehost", "run", "--http", "127.0.0.1:0", "--no-bus"]
from enginehost.cli import main
main()
"""


@pytest.mark.parametrize(
    "signals",
    [
        {"enginehost.cli.app": signal.SIGTERM},
        {"enginehost.cli.app": signal.SIGINT},
        {"enginehost.cli.app": signal.SIGHUP, "enginehost.cli.running": signal.SIGTERM},
    ],
)
def test_a_signal_while_the_program_is_loaded_ends_it_cleanly(folder: Path, signals: dict[str, int]) -> None:
    code = _SIGNALLED.format(signals={name: int(number) for name, number in signals.items()})
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder.parent, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_reader_of_the_log_that_goes_away_hinders_nothing_and_is_counted(folder: Path) -> None:
    with running(folder, until="listening") as host:
        assert host.process.stderr is not None
        host.process.stderr.close()
        while get(f"{host.url}/readyz")[0] != 200:
            pass
        headers = {"Content-Type": "application/json"}
        urlopen(Request(f"{host.url}/v1/functions/add", b'{"a": 1}', headers), timeout=30).close()
        while b"enginehost_records_dropped_total 0\n" in get(f"{host.url}/metrics")[1]:
            pass
        host.signal(signal.SIGTERM)
        assert host.process.wait(30) == 0


def test_sighup_reads_the_policy_again(folder: Path) -> None:
    policy = folder.parent / "policy.yaml"
    policy.write_text("default: call\n")
    (folder.parent / "enginehost.yaml").write_text("policy: policy.yaml\n")
    with running(folder) as host:
        assert get(f"{host.url}/v1/functions/add")[0] == 200
        policy.write_text("default: deny\n")
        host.signal(signal.SIGHUP)
        while "read again" not in host.next_event("log").get("message", ""):
            pass
        assert get(f"{host.url}/v1/functions/add")[0] == 404
        policy.write_text("dfault: call\n")
        host.signal(signal.SIGHUP)
        while "the old policy stays" not in host.next_event("log").get("message", ""):
            pass
        assert get(f"{host.url}/v1/functions/add")[0] == 404


def test_a_wrong_file_is_told_and_hinders_nothing(folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    with running(folder) as host:
        assert host.events[-1]["problems"] == 1
        problem = host.next_event("problem")
        assert problem["path"] == str(folder / "broken.smss")
        assert get(f"{host.url}/v1/functions/add")[0] == 200


def test_a_port_in_use_is_an_error_with_a_way_out(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = program("run", "--http", address, "--no-bus", "--log", "json", cwd=folder.parent)
    assert done.returncode == 78
    assert "stopped" not in done.stderr
    assert "Address already in use" in done.stderr
    assert "--http HOST:PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_machines_are_let_in_with_tokens_only(folder: Path) -> None:
    done = program("run", "--http", "0.0.0.0:0", "--no-bus", cwd=folder.parent)
    assert done.returncode == 78
    assert "set up tokens" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nowhere"], 2, "enginehost new python hello --folder nowhere"),
        (["--http", "nonsense:port:1"], 78, "is no address"),
        (["--config", "none.yaml"], 78, "none.yaml"),
        (["--domain", "233"], 2, "--domain"),
        (["--drain", "-1"], 2, "--drain"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, words: list[str], code: int, text: str) -> None:
    done = program("run", *words, "--no-bus", cwd=folder.parent)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_people_get_a_page(folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    done = run_until_its_page(folder)
    assert done.returncode == 0
    assert "4 functions" in done.stderr
    assert "/docs" in done.stderr
    assert "did you mean LocalPython?" in done.stderr
    assert "\033" not in done.stderr


def test_the_page_proposes_a_command_that_a_shell_takes(folder: Path) -> None:
    for file in folder.glob("*.smss"):
        file.unlink()
    write(folder, {"odd.smss": ADD.replace("= add", "= a b/ü") + "\n    PYTHON_FUNCTION_NAME = add\n"})
    assert "enginehost describe 'a b/ü' --url http://" in run_until_its_page(folder).stderr


async def test_a_signal_that_comes_twice_at_once_counts_once(folder: Path, go: Path) -> None:
    with running(folder, "--drain", "60", env=TRUSTED) as host:
        (task,) = await _in_flight(host, 1)
        host.signal(signal.SIGTERM)
        await asyncio.to_thread(host.next_event, "stopping")
        host.signal(signal.SIGTERM)
        host.signal(signal.SIGINT)
        go.touch()
        assert await task == (200, b'{"result":"held"}')
        assert await asyncio.to_thread(host.ended) == 0


def test_the_log_has_one_style_and_tells_each_problem_once(folder: Path) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    with running(folder) as host:
        host.next_event("problem")
        get(f"{host.url}/v1/functions/add")
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
    told = [event for event in host.events if "LocalPythn" in json.dumps(event)]
    assert [event["event"] for event in told] == ["problem"]


def test_json_lines_are_compact_as_call_lines_are() -> None:
    record = logging.LogRecord("x", logging.INFO, "p", 1, "said %s", ("so",), None)
    assert '"message":"said so"' in JsonLines().format(record)


def test_a_port_that_needs_a_privilege_says_so() -> None:
    assert "CAP_NET_BIND_SERVICE" in binding_hint(PermissionError(errno.EACCES, "Permission denied"))
    assert "another host" in binding_hint(OSError(errno.EADDRINUSE, "in use"))
    assert "no such address" in binding_hint(OSError(errno.EADDRNOTAVAIL, "not available"))


def test_an_interface_that_does_not_exist_stops_the_start(folder: Path) -> None:
    done = program(
        "run", "--http", "127.0.0.1:0", "--bus-interface", "nosuch0", "--log", "json", cwd=folder.parent
    )
    assert done.returncode == 78
    assert "error: this machine has no network interface 'nosuch0'" in done.stderr
    assert "there are lo" in done.stderr
    assert "does not match" not in done.stderr


def test_the_log_for_people_says_whose_output_a_line_is_and_marks_further_lines() -> None:
    def line(logger: str, text: str) -> str:
        record = logging.LogRecord(logger, logging.INFO, "p", 1, text, (), None)
        return ForPeople().format(record).partition("INFO    ")[2]

    assert line("enginehost.engine.a.b\n", "00:00:00 ok\x1b[31m") == r"a.b\n: 00:00:00 ok\x1b[31m"
    assert line("enginehost.news", "one\n00:00:00 two") == "one\n  | 00:00:00 two"


def test_json_is_one_word_for_a_log_and_errors_of_json(folder: Path) -> None:
    with running(folder, "--log", "console", "--json") as host:
        assert [event["event"] for event in host.events] == ["listening", "ready"]
    done = program("run", "--json", "--http", "nonsense", cwd=folder.parent)
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "config"
    assert done.returncode == 78

"""The same commands against a running host."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

from .conftest import ADD, BROKEN, COUNT, ECHO, FAIL, TOOLS, Cli, Running, running, write

TOKEN = "correct-horse-battery"
MODEL = "ENGINE model\nENGINE_TYPE prerna.engine.impl.model.OpenAiEngine\n"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A host with a token for ``bob``, who may call everything but ``fail``."""
    base = tmp_path_factory.mktemp("served")
    files = {"add.smss": ADD, "count.smss": COUNT, "echo.smss": ECHO, "fail.smss": FAIL, "tools.py": TOOLS}
    write(base / "smss", files | {"broken.smss": BROKEN, "model.smss": MODEL})
    (base / "enginehost.yaml").write_text(
        f"tokens:\n- name: bob\n  token: {TOKEN}\n"
        "policy:\n  rules:\n  - {allow: call, callers: authenticated}\n"
    )
    environment = {"XDG_STATE_HOME": str(base / "state"), "ENGINEHOST_TOKEN": ""}
    with running(base / "smss", env=environment) as started:
        yield started
        started.signal(signal.SIGTERM)
        assert started.ended() == 0


@pytest.fixture
def ask(cli: Cli, host: Running, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("ENGINEHOST_TOKEN", TOKEN)
    return lambda *words: cli(*words, "--url", host.url)


def test_list_is_the_same_as_of_the_folder(ask: Cli, cli: Cli) -> None:
    assert ask("list", "--json").json == cli("list", "--json").json
    assert ask("list", "--tags", "math", "--json").json == cli("list", "--tags", "math", "--json").json
    assert "unsupported: broken" in ask("list").err


def test_describe_and_tools_are_the_same_as_of_the_folder(ask: Cli, cli: Cli) -> None:
    about = cli("describe", "add", "--json").json
    remote = ask("describe", "add", "--json").json
    for changing in (about, remote):
        changing["engine"].pop("since")
    assert remote == {key: value for key, value in about.items() if key != "path"}
    for words in (
        ["describe", "add", "--as", "gemini"],
        ["tools", "--as", "mcp"],
        ["tools", "--tags", "math"],
    ):
        assert ask(*words).json == cli(*words).json


def test_the_names_in_a_schema_arrive_as_they_are(cli: Cli, tmp_path: Path) -> None:
    script = "async def data(value: bytes) -> bytes:\n    'Data.'\n    return value\n"
    file = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = data.py\nPYTHON_FUNCTION_NAME = data\n"
    write(tmp_path / "served", {"data.py": script, "data.smss": file})
    with running(tmp_path / "served", env={"ENGINEHOST_TOKEN": ""}) as host:
        url = ("--url", host.url)
        assert list(cli("describe", "data", "--json", *url).json["result"]["properties"]) == ["$bytes"]
        assert "$$" not in cli("tools", "--as", "mcp", *url).out
        with urlopen(f"{host.url}/openapi.json") as answer:
            assert "$$" not in answer.read().decode()
        assert cli("call", "data", "value=AAE=", *url).json == {"$bytes": "AAE="}
        assert cli("call", "data", 'value:={"$bytes": "AAE="}', *url).json == {"$bytes": "AAE="}
        host.signal(signal.SIGTERM)
        assert host.ended() == 0


def test_calls_give_the_same_as_of_the_folder(ask: Cli) -> None:
    assert ask("call", "add", "a=1", "b=2").json == 3
    assert ask("call", "echo", "value:=123456789012345678901234567890").json == 123456789012345678901234567890
    assert ask("call", "count", "to=3").json == [0, 1, 2]
    assert ask("call", "count", "to=3", "--stream").out == "0\n1\n2\n"
    assert ask("call", "echo", "text=a\nb", "--stream", "--raw").out == "a\nb\n"
    assert ask("call", "echo", "text=a\u2028b\x85c", "--stream").json == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["call", "ad", "a=1"], 3, "did you mean add?"),
        (["call", "ad", "--json", "{}"], 3, "did you mean add?"),
        (["call", "add", "a=x"], 4, 'is not of type "number"'),
        (["call", "add", "a=x", "--stream"], 4, 'is not of type "number"'),
        (["call", "fail"], 1, "it broke"),
        (["call", "fail", "--stream"], 1, "it broke"),
        (["describe", "add", "--as", "telex"], 2, "openai-strict"),
    ],
)
def test_errors_have_the_same_exit_codes(ask: Cli, words: list[str], code: int, text: str) -> None:
    done = ask(*words)
    assert done.code == code
    assert text in done.err
    assert "Traceback" not in done.err


def test_without_the_token_there_is_a_hint(cli: Cli, host: Running) -> None:
    done = cli("call", "add", "a=1", "--url", host.url)
    assert done.code == 77
    assert f"give a token that {host.url} knows: --token, or ENGINEHOST_TOKEN" in done.err
    assert cli("call", "add", "a=1", "--url", host.url, "--token", TOKEN).json == 2
    assert cli("call", "add", "a=1", "--url", host.url, "--token", "wrong-horse-battery").code == 77


def test_doctor_looks_at_the_running_host(ask: Cli) -> None:
    done = ask("doctor")
    assert done.code == 1
    assert "is ready" in done.out
    assert "broken is unsupported" in done.out
    assert "mend: did you mean LocalPython?" in done.out
    grades = {one["message"].split(" ")[0]: one["grade"] for one in ask("doctor", "--json").json["findings"]}
    assert (grades["broken"], grades["model"]) == ("error", "warning")


class _Stranger(BaseHTTPRequestHandler):
    """Some other service: JSON at one path, HTML elsewhere."""

    def do_GET(self) -> None:
        json = self.path.startswith("/v1/functions?")
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if json else "text/html")
        self.end_headers()
        self.wfile.write(b"[]" if json else b"<p>hello")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_another_service_is_told_from_a_host(cli: Cli) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for words in (["list"], ["describe", "add"], ["doctor"], ["call", "add", "--json", "{}"]):
            done = cli(*words, "--url", f"http://127.0.0.1:{server.server_port}")
            assert done.code == 69
            assert "not as a host does" in done.err
        server.shutdown()


def test_a_proxy_is_not_asked_for_this_machine(ask: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert ask("call", "add", "a=1").json == 2


def test_nobody_there_is_an_error_with_a_way_out(cli: Cli) -> None:
    done = cli("list", "--url", "http://127.0.0.1:1")
    assert done.code == 69
    assert "start one with `enginehost run`" in done.err
    assert cli("list", "--url", "ftp://x").code == 2
    assert cli("list", "--url", "http://").code == 2

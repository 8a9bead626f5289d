"""``doctor`` finds what ``run`` would refuse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import BROKEN, Cli, Running, program, running

AREA = re.compile(r"(?m)^(\w+) +FAIL")


@pytest.fixture(autouse=True)
def _free_port(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOST_HTTP__ADDRESS", "127.0.0.1:0")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("tokens: [{name: ci, token_env: CI_TOKEN}]\n", "the variable CI_TOKEN is not set"),
        ("tokens: [{name: ci, token_file: none.txt}]\n", "the token of 'ci' cannot be read"),
        ("databus: {interface: nosuch0}\n", "this machine has no network interface 'nosuch0'"),
        ("databus: {sign: true}\nstate_dir: state\n", "there is no key"),
        ("policy: policy.yaml\n", "unknown key 'dfault'"),
        ("audit: /proc/audit/file.jsonl\n", "the audit file cannot be opened"),
        ("http: 0.0.0.0:0\n", "nobody could be told from anybody"),
    ],
)
def test_what_run_refuses_is_wrong_for_doctor_too(
    cli: Cli, folder: Path, settings: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "enginehost.yaml").write_text(settings)
    (folder.parent / "policy.yaml").write_text("dfault: call\n")
    if settings.startswith("http"):
        monkeypatch.delenv("ENGINEHOST_HTTP__ADDRESS")
    done = cli("doctor")
    assert done.code == 1
    assert said in done.out
    assert "4 functions" in done.out
    refused = program("run", cwd=folder.parent)
    assert refused.returncode == 78
    assert said in refused.stderr


def test_what_the_databus_does_without_is_doubtful(cli: Cli, folder: Path) -> None:
    text = "databus: {peers: [nope.invalid], accept: trusted}\nstate_dir: state\n"
    (folder.parent / "enginehost.yaml").write_text(text)
    done = cli("doctor")
    assert done.code == 0, done.out
    assert "warn  databus peers without an IPv4 address are left out: nope.invalid" in done.out
    assert "warn  databus: there is no trust file" in done.out


def test_a_token_that_is_too_short_is_wrong(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "enginehost.yaml").write_text("tokens: [{name: ci, token_env: CI_TOKEN}]\n")
    monkeypatch.setenv("CI_TOKEN", "short")
    done = cli("doctor")
    assert done.code == 1
    assert "at least 16 characters" in done.out


def test_a_broken_policy_hides_nothing_else(cli: Cli, folder: Path) -> None:
    (folder.parent / "enginehost.yaml").write_text("policy: policy.yaml\ndrain_seconds: 3\n")
    (folder.parent / "policy.yaml").write_text("dfault: call\n")
    (folder / "broken.smss").write_text(BROKEN)
    done = cli("doctor")
    assert "drain_seconds = 3 " in done.out
    assert "did you mean LocalPython?" in done.out
    assert AREA.findall(done.out) == ["policy"]


def test_a_running_host_says_that_its_policy_is_broken(folder: Path, cli: Cli) -> None:
    (folder.parent / "enginehost.yaml").write_text("policy: policy.yaml\n")
    policy = folder.parent / "policy.yaml"
    policy.write_text("default: call\n")
    with running(folder) as host:
        assert cli("doctor", "--url", host.url).code == 0
        policy.write_text("dfault: call\n")
        _until_told(host)
        done = cli("doctor", "--url", host.url)
    assert done.code == 1
    assert "unknown key 'dfault'" in done.out


def test_a_running_host_says_that_a_service_is_left_alone(folder: Path, cli: Cli, free_tcp_port: int) -> None:
    (folder / "away.smss").write_text(
        f"ENGINE_CLASS = REST\nURL = http://127.0.0.1:{free_tcp_port}/\nBREAKER_FAILURES = 1\n"
        "FUNCTION_NAME = away\nFUNCTION_DESCRIPTION = d\n"
    )
    with running(folder) as host:
        assert cli("call", "away", "--url", host.url).code != 0
        told = f"127.0.0.1:{free_tcp_port} failed 1 times in a row"
        assert f"ready: away: {told}" in cli("list", "--url", host.url).err
        done = cli("doctor", "--url", host.url)
    assert f"away is ready: {told}" in done.out


def _until_told(host: Running) -> None:
    while "the old policy stays" not in host.next_event("log")["message"]:
        pass


AGENT = """
ENGINE_CLASS = Agent
FUNCTION_NAME = helper
FUNCTION_DESCRIPTION = Helps.
MODEL = m
"""


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///{}", "the database is a folder"),
        ("sqlite:///{}/garbage.db", "is no SQLite database"),
        ("postgresql://u:SECRETPW@127.0.0.1:1/x", "the PostgreSQL database cannot be used"),
        ("mysql://u:SECRETPW@h/x", "not a database that sessions can be in"),
        ("sqlite://", "SQLite"),
    ],
)
def test_a_database_that_cannot_be_used_is_wrong_and_no_password_is_shown(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    (folder.parent / "garbage.db").write_bytes(b"garbage" * 1000)
    url = url.format(folder.parent)
    for variable in ("DATABASE_URL", "ENGINEHOST_STORE__URL"):
        (folder / "helper.smss").write_text(AGENT)
        with monkeypatch.context() as given:
            given.setenv(variable, url)
            for words in (("doctor",), ("doctor", "--json")):
                done = cli(*words)
                assert (done.code, said in done.out) == (1, True), done.out
                assert "SECRETPW" not in done.out + done.err
            if variable != "DATABASE_URL" and said.startswith(("not a", "SQLite")):
                checked = cli("validate")
                assert (checked.code, said in checked.out, "SECRETPW" in checked.out) == (1, True, False)
        (folder / "helper.smss").unlink()
    monkeypatch.setenv("DATABASE_URL", url)
    assert cli("doctor").code == 0  # nothing here needs it


def test_doctor_says_what_would_be_made_and_makes_nothing(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEHOST_STORE__URL", f"sqlite:///{folder.parent}/new/s.db")
    done = cli("doctor")
    assert done.code == 0
    assert "not there yet, made with its folder when a session is first needed" in done.out
    assert not (folder.parent / "new").exists()

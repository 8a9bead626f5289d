"""doctor, plugins, policy, token."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from enginehost.auth import Authenticator
from enginehost.settings import load_settings

from .conftest import BROKEN, Cli


@pytest.fixture(autouse=True)
def _free_port(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOST_HTTP__ADDRESS", "127.0.0.1:0")


def test_doctor_is_content_with_a_good_folder(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0
    assert "4 functions; engines: 4 ready" in done.out
    assert "[ENGINEHOST_HTTP__ADDRESS]" in done.out


def test_doctor_finds_what_is_wrong_and_says_how_to_mend_it(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "broken.smss").write_text(BROKEN)
    monkeypatch.setenv("ENGINEHOST_DRAIN_SECOND", "3")
    monkeypatch.setenv("ENGINEHOST_TOKEN", "known")
    done = cli("doctor", "--json")
    assert done.code == 1
    assert done.json["ok"] is False
    findings = {one["message"]: one for one in done.json["findings"] if one["grade"] != "ok"}
    assert findings["ENGINEHOST_DRAIN_SECOND sets nothing"]["hint"] == "did you mean drain_seconds?"
    broken = findings["no plugin provides the engine class 'LocalPythn'"]
    assert broken["where"] == f"{folder / 'broken.smss'}:1:1"
    assert broken["hint"] == "did you mean LocalPython?"
    assert not any("ENGINEHOST_TOKEN" in message for message in findings)


def test_doctor_says_which_transports_there_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOST_DATABUS__TRANSPORT", "cyclon")
    done = cli("doctor")
    assert done.code == 1
    assert "no databus transport is called 'cyclon'" in done.out
    assert "did you mean cyclone?" in done.out


def test_doctor_works_without_folder_and_with_wrong_settings(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text("htpp: off\n")
    done = cli("doctor", "nowhere")
    assert done.code == 1
    assert "there is no folder nowhere" in done.out
    assert "did you mean http?" in done.out


def test_doctor_says_where_settings_come_from_and_keeps_secrets(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text(
        "drain_seconds: 3\ntokens:\n- name: bob\n  token: correct-horse-battery\n"
    )
    done = cli("doctor")
    assert f"drain_seconds = 3 [{tmp_path / 'enginehost.yaml'}:1]" in " ".join(done.out.split())
    assert "tokens = 1 given" in done.out
    assert "correct-horse" not in done.out


def test_doctor_sees_that_the_port_is_taken(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("ENGINEHOST_HTTP__ADDRESS", f"127.0.0.1:{other.getsockname()[1]}")
        done = cli("doctor")
    assert done.code == 1
    assert "cannot be had: Address already in use" in done.out


def test_plugins_lists_what_is_there(cli: Cli) -> None:
    done = cli("plugins", "--json")
    assert done.json["problems"] == []
    names = {row["name"]: row for row in done.json["plugins"]}
    assert names["LocalPython"]["provides"] == "engine"
    assert names["LocalPython"]["state"] == "ok"
    assert "LocalPython" in cli("plugins").out


def test_policy_explain_names_the_rule(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text("policy: policy.yaml\n")
    (tmp_path / "policy.yaml").write_text(
        "rules:\n- name: sums\n  allow: call\n  scopes: [calc]\n  functions: [add]\n"
    )
    allowed = cli("policy", "explain", "bob", "add", "--scopes", "calc,other")
    assert "call: yes, allowed by rule 'sums'" in allowed.out
    refused = cli("policy", "explain", "anonymous", "add", "--json").json
    assert refused["may_view"] is False
    assert cli("policy", "explain", "bob", "nothing").code == 3


def test_a_token_is_accepted_by_the_settings_printed_with_it(cli: Cli, tmp_path: Path) -> None:
    made = cli("token", "bob", "--scopes", "a, b", "--tenant", "acme")
    text = made.out.strip()
    (tmp_path / "enginehost.yaml").write_text(made.err[made.err.index("tokens:") :])
    caller = Authenticator(load_settings(tmp_path / "smss")).authenticate_now(f"Bearer {text}", "http")
    assert caller is not None
    assert (caller.subject, caller.scopes, caller.tenant) == ("bob", {"a", "b"}, "acme")
    assert text not in made.err


def test_a_token_as_json(cli: Cli) -> None:
    first, second = cli("token", "bob", "--json").json, cli("token", "bob", "--json").json
    assert first["token"] != second["token"]
    assert yaml.safe_load(yaml.safe_dump(first["settings"]))["tokens"][0]["name"] == "bob"
    assert cli("token", "").code == 2


def test_policy_explain_takes_scopes_and_tenant_from_the_token(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text(
        "tokens: [{name: ci, token: correct-horse-battery, scopes: [calc], tenant: acme}]\n"
        "policy: {rules: [{allow: call, scopes: [calc], tenants: [acme]}]}\n"
    )
    assert cli("policy", "explain", "ci", "add", "--json").json["may_call"] is True
    assert cli("policy", "explain", "ci", "add", "--scopes", "", "--json").json["may_call"] is False
    assert cli("policy", "explain", "ci", "add", "--tenant", "other", "--json").json["may_call"] is False
    assert cli("policy", "explain", "bob", "add", "--json").json["may_call"] is False


def test_doctor_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text("audit: a/b/audit.jsonl\nsecrets: kept\nstate_dir: c/d\n")
    before = sorted(tmp_path.rglob("*"))
    done = cli("doctor")
    assert done.code == 1
    assert f"mkdir -p {tmp_path}/a/b" in done.out
    assert "the folder of secrets" in done.out
    assert sorted(tmp_path.rglob("*")) == before


def test_doctor_tells_all_wrong_settings_and_all_wrong_tokens(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "enginehost.yaml"
    config.write_text("htpp: off\ndatabus: {domian: 1}\n")
    for done in (cli("doctor"), cli("list"), cli("validate")):
        text = done.out + done.err
        assert "did you mean http?" in text
        assert "did you mean domain?" in text
    error = cli("list", "--json").error
    assert [one["line"] for one in (error, *error["others"])] == [1, 2]
    config.write_text("tokens: [{name: ci, token_env: NO_CI}, {name: ops, token_env: NO_OPS}]\n")
    done = cli("doctor")
    assert "the variable NO_CI is not set" in done.out
    assert "the variable NO_OPS is not set" in done.out
    assert "tokens of" not in done.out


def test_doctor_writes_settings_as_their_file_does_and_only_those_that_are_given(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text("default: call\n")
    (tmp_path / "enginehost.yaml").write_text(
        "databus: off\ndefault_timeout: null\nallow_nan: on\nopen_timeout: 1.5\npolicy: policy.yaml\n"
        "http: {allowed_hosts: [a.example, b.example], allowed_origins: []}\n"
    )
    given = [one["message"] for one in cli("doctor", "--json").json["findings"] if " = " in one["message"]]
    assert given == [
        "http.address = 127.0.0.1:0",
        "http.allowed_hosts = a.example, b.example",
        "http.allowed_origins = []",
        "databus.enabled = false",
        "open_timeout = 1.5",
        "default_timeout = null",
        "allow_nan = true",
        f"policy.file = {tmp_path / 'policy.yaml'}",
    ]


def test_doctor_says_which_words_of_the_policy_mean_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text("policy: policy.yaml\n")
    (tmp_path / "policy.yaml").write_text(
        "rules:\n- {deny: call, faces: [htpp], functions: [ad, add], tags: [maths]}\n"
    )
    findings = [one for one in cli("doctor", "--json").json["findings"] if one["area"] == "policy"]
    told = {one["message"]: one["hint"] for one in findings if one["grade"] == "warning"}
    assert told == {
        "rule 1: there is no face 'htpp'": "did you mean http?",
        "rule 1: there is no function 'ad'": "did you mean add?",
        "rule 1: there is no tag 'maths'": "did you mean math?",
    }


def test_policy_explain_knows_the_faces(cli: Cli, tmp_path: Path) -> None:
    done = cli("policy", "explain", "bob", "add", "--face", "htpp")
    assert done.code == 2
    assert "did you mean http?" in done.err
    assert cli("policy", "explain", "bob", "add", "--face", "databus").code == 0
    (tmp_path / "enginehost.yaml").write_text(
        "policy: {rules: [{allow: call, callers: anyone, faces: ['batch-*']}]}\n"
    )
    assert cli("policy", "explain", "bob", "add", "--face", "batch-1", "--json").json["may_call"] is True

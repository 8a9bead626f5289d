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
    assert f"drain_seconds = 3.0  [{tmp_path / 'enginehost.yaml'}:1]" in done.out
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
    assert cli("token", "").code == 78


def test_policy_explain_takes_scopes_and_tenant_from_the_token(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text(
        "tokens: [{name: ci, token: correct-horse-battery, scopes: [calc], tenant: acme}]\n"
        "policy: {rules: [{allow: call, scopes: [calc], tenants: [acme]}]}\n"
    )
    assert cli("policy", "explain", "ci", "add", "--json").json["may_call"] is True
    assert cli("policy", "explain", "ci", "add", "--scopes", "", "--json").json["may_call"] is False
    assert cli("policy", "explain", "ci", "add", "--tenant", "other", "--json").json["may_call"] is False
    assert cli("policy", "explain", "bob", "add", "--json").json["may_call"] is False

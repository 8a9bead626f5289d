"""``enginehost databus keygen`` and ``trust``: two machines come to know each other in two commands."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from enginehost.caller import Caller
from enginehost.cli.examination import _keys
from enginehost.databus.config import config_of
from enginehost.databus.keys import load_key, new_key, signing_key, written
from enginehost.databus.trust import Trust
from enginehost.settings import load_settings

KEY = new_key()
PUBLIC = written(KEY.public)


def test_a_key_is_made_once_and_shown_again(cli: Any, tmp_path: Path) -> None:
    made = cli("databus", "keygen")
    file = tmp_path / "state" / "enginehost" / "databus" / "key.pem"
    key = load_key(file)
    assert (made.code, made.out) == (0, f"{written(key.public)}\n")
    assert key.id in made.err
    assert str(file) in made.err
    assert f"enginehost databus trust {written(key.public)} --name NAME" in made.err
    assert cli("databus", "keygen", "--show") == made
    again = cli("databus", "keygen", "--json")
    assert again.code == 78
    assert again.error["message"] == "there is a key already"
    assert load_key(file).id == key.id
    forced = cli("databus", "keygen", "--force", "--json")
    assert forced.json == {
        "public_key": forced.json["public_key"],
        "id": load_key(file).id,
        "file": str(file),
    }
    assert forced.json["id"] != key.id


def test_nothing_that_is_printed_tells_the_private_key(cli: Any, tmp_path: Path) -> None:
    for words in ((), ("--show",), ("--show", "--json"), ("--force", "--json")):
        done = cli("databus", "keygen", *words)
        file = tmp_path / "state" / "enginehost" / "databus" / "key.pem"
        private = file.read_text().splitlines()[1]
        assert private not in done.out + done.err


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_the_key_can_be_kept_elsewhere(cli: Any, tmp_path: Path) -> None:
    assert cli("databus", "keygen", "--out", "own.pem").code == 0
    assert stat.S_IMODE((tmp_path / "own.pem").stat().st_mode) == 0o600
    (tmp_path / "enginehost.yaml").write_text(
        "databus: {key_file: own.pem, trust_file: own.yaml, interface: eth0}\n"
    )
    assert cli("databus", "keygen", "--show", "--json").json["file"] == str(tmp_path / "own.pem")
    assert cli("databus", "trust", PUBLIC, "--name", "plant", "--json").json["file"] == str(
        tmp_path / "own.yaml"
    )
    config = config_of(load_settings("smss"))
    assert (key := signing_key(config)) is not None
    assert key.id == load_key(tmp_path / "own.pem").id
    assert Trust(config.trust_path).find(KEY.id) is not None
    (tmp_path / "own.pem").chmod(0o644)
    shown = cli("databus", "keygen", "--show")
    assert shown.code == 78
    assert "other users may read" in shown.err
    assert "chmod 600" in shown.err


def test_a_key_is_trusted_listed_and_taken_back(cli: Any) -> None:
    done = cli("databus", "trust", PUBLIC, "--name", "plant", "--scopes", "math:use, b", "--tenant", "acme")
    assert (done.code, done.out) == (0, f"trusted: plant ({KEY.id}), scopes math:use, b, tenant acme\n")
    found = Trust(config_of(load_settings("smss")).trust_path).find(KEY.id)
    assert found is not None
    assert found.caller == Caller("plant", "acme", frozenset({"math:use", "b"}), "databus")
    listed = cli("databus", "trust", "--list")
    assert re.split(r"\s+", listed.out.splitlines()[1]) == ["plant", KEY.id, "math:use,b", "acme", PUBLIC]
    again = cli("databus", "trust", PUBLIC, "--name", "plant")
    assert again.out == f"trusted already, now: plant ({KEY.id})\n"
    assert cli("databus", "trust", "--remove", KEY.id).out == f"trusted no more: plant ({KEY.id})\n"
    assert cli("databus", "trust", "--list", "--json").json["keys"] == []
    gone = cli("databus", "trust", "--remove", "plant")
    assert gone.code == 2
    assert "no trusted key has the name or the id 'plant'" in gone.err


def test_json_says_what_became_of_a_key(cli: Any, tmp_path: Path) -> None:
    words = ("databus", "trust", "--file", "t.yaml", "--json")
    entry = {"name": "plant", "id": KEY.id, "key": PUBLIC, "scopes": ["a"], "tenant": "", "services": None}
    place = {"file": "t.yaml"}
    added = cli(*words, PUBLIC, "--name", "plant", "--scopes", "a")
    assert added.json == entry | place | {"new": True}
    assert cli(*words, "--list").json == {"keys": [entry]} | place
    assert cli(*words, "--remove", "plant").json == entry | place
    assert (tmp_path / "t.yaml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to do"),
        ((PUBLIC, "--list"), "too much"),
        (("--list", "--remove", "a"), "too much"),
        ((PUBLIC,), "whose key is this?"),
        (("ed25519:AAAA", "--name", "a"), "44 characters of base64"),
        ((PUBLIC, "--name", "anonymous"), "the host itself gives"),
        ((PUBLIC, "--name", KEY.id), "looks like the id"),
    ],
)
def test_a_slip_is_told_and_changes_nothing(
    cli: Any, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = cli("databus", "trust", *words)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "state").exists()
    assert cli("databus", "keygen", "--show", "--force").code == 2


def test_a_name_or_a_key_that_somebody_else_has_is_refused(cli: Any) -> None:
    assert cli("databus", "trust", PUBLIC, "--name", "plant").code == 0
    other = written(new_key().public)
    assert "another key's" in cli("databus", "trust", other, "--name", "plant").err
    assert f"--remove {KEY.id}" in cli("databus", "trust", PUBLIC, "--name", "other").err


def test_doctor_says_with_what_a_host_signs_and_whom_it_trusts(cli: Any, tmp_path: Path) -> None:
    def said(**bus: Any) -> list[str]:
        return [
            f"{found.grade}: {found.message}"
            for found in _keys(load_settings("smss", **{f"databus__{key}": one for key, one in bus.items()}))
        ]

    assert said() == []
    assert "there is no key" in said(sign=True)[0]
    made = cli("databus", "keygen", "--json").json["id"]
    cli("databus", "trust", PUBLIC, "--name", "plant")
    assert said(sign=True) == [f"ok: databus: signs with the key {made}; 1 trusted key"]
    assert said() == ["ok: databus: signs nothing; 1 trusted key"]
    assert said(enabled=False) == []
    (tmp_path / "t.yaml").write_text("keys: 1\n")
    assert said(trust_file=tmp_path / "t.yaml")[0].startswith("error: ")


def test_policy_explain_knows_what_a_trusted_key_grants(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "enginehost.yaml").write_text(
        "policy: {rules: [{name: sums, allow: call, scopes: [math:use], tags: [math]}]}\n"
    )
    cli("databus", "trust", PUBLIC, "--name", "plant", "--scopes", "math:use")
    on_the_bus = cli("policy", "explain", "plant", "add", "--face", "databus", "--json").json
    assert (on_the_bus["may_call"], on_the_bus["call_by"]) == (True, "allowed by rule 'sums'")
    assert not cli("policy", "explain", "plant", "add", "--json").json["may_call"]

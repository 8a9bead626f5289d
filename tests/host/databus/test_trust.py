"""Whose keys count: one file, which two may not spoil for each other, and which takes effect at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.caller import Caller
from enginehost.databus.config import DatabusConfig
from enginehost.databus.keys import key_id, new_key, written
from enginehost.databus.trust import (
    LOOK_EVERY,
    KeyEntry,
    Trust,
    distrust,
    missing_trust,
    read_trust,
    trust_key,
)
from enginehost.errors import ConfigError

ONE, TWO = (written(bytes([number]) * 32) for number in (1, 3))
ID = key_id(bytes([1]) * 32)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trusted.yaml"


def entry(name: str = "plant", key: str = ONE, **more: object) -> KeyEntry:
    return KeyEntry(name=name, key=key, **more)  # pyright: ignore


def test_a_trusted_key_is_a_caller_of_the_databus(path: Path) -> None:
    assert trust_key(path, entry(scopes=("a", "b"), tenant="acme"))
    found = Trust(path).find(ID)
    assert found is not None
    assert found.caller == Caller("plant", "acme", frozenset({"a", "b"}), "databus", authenticated=True)
    assert Trust(path).find(key_id(bytes([3]) * 32)) is None
    assert Trust(None).find(ID) is None


words = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters=","), min_size=1, max_size=20
)
entries = st.builds(
    KeyEntry,
    name=words,
    key=st.builds(lambda: written(new_key().public)),
    scopes=st.lists(words, max_size=3).map(tuple),
    tenant=st.one_of(st.just(""), words),
)


@settings(max_examples=25)
@given(st.lists(entries, max_size=4, unique_by=(lambda one: one.name, lambda one: one.key)))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, given: list[KeyEntry]) -> None:
    path = tmp_path_factory.getbasetemp() / "round.yaml"
    path.unlink(missing_ok=True)
    for one in given:
        trust_key(path, one)
    assert list(read_trust(path).keys) == given


def test_what_is_written_while_a_host_runs_counts_at_once(path: Path, clock: Clock) -> None:
    trust = Trust(path, clock)
    trust_key(path, entry())
    assert trust.find(ID) is None  # looked at less than a second ago
    clock.now += LOOK_EVERY
    assert trust.find(ID) is not None
    assert distrust(path, "plant") is not None
    clock.now += LOOK_EVERY
    assert trust.find(ID) is None
    assert list(trust.keys()) == []


def test_the_file_is_looked_at_once_a_second_and_read_only_when_it_changed(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_key(path, entry())
    trust = Trust(path, clock)
    reads: list[Path] = []
    monkeypatch.setattr("enginehost.databus.trust.read_trust", lambda path: reads.append(path))
    for _ in range(5):
        clock.now += LOOK_EVERY
        assert trust.find(ID) is not None
    assert reads == []


def test_a_file_that_becomes_wrong_leaves_the_old_keys_and_says_so(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    trust_key(path, entry())
    trust = Trust(path, clock)
    path.write_text("keys: [")
    clock.now += LOOK_EVERY
    assert trust.find(ID) is not None
    assert trust.problem is not None
    assert "the old keys count" in caplog.text
    path.write_text("keys:\n")  # the last entry was taken out by hand
    clock.now += LOOK_EVERY
    assert trust.find(ID) is None
    assert trust.problem is None


def test_where_the_file_goes_no_key_counts(path: Path, clock: Clock) -> None:
    trust_key(path, entry())
    trust = Trust(path, clock)
    path.unlink()
    clock.now += LOOK_EVERY
    assert trust.find(ID) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            f"keys:\n- name: a\n  key: {ONE}\n- name: a\n  key: {TWO}\n",
            4,
            "two keys have the name 'a', the f",
        ),
        (f"keys:\n- name: a\n  key: {ONE}\n- name: b\n  key: {ONE}\n", 5, "first on line 3"),
        (f"keys:\n- name: anonymous\n  key: {ONE}\n", 2, "the host itself gives"),
        (f"keys:\n- name: local\n  key: {ONE}\n", 2, "the host itself gives"),
        (f"keys:\n- name: {ID}\n  key: {ONE}\n", 2, "looks like the id"),
        (f'keys:\n- name: "a\\nb"\n  key: {ONE}\n', 2, "control characters"),
        ("keys:\n- name: a\n  key: ed25519:AAAA\n", 3, "44 characters of base64"),
        (f"keys:\n- name: a\n  key: {ONE}\n  scope: x\n", 4, "unknown key 'keys.0.scope'"),
        (f"keys:\n- name: a\n  key: {ONE}\n\tx", 4, "not YAML"),
        ("keys:\n- name: a\n", 2, "key"),
        ("- a\n", 1, "has the key keys"),
        ("trusted: []\n", 1, "unknown key 'trusted'"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line_and_not_overwritten(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = tmp_path / "trusted.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        Trust(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    with pytest.raises(ConfigError):
        trust_key(path, entry("new"))
    assert path.read_text() == text


@given(st.text(alphabet="keysname: \n-[]{}*&'\"ed25519", max_size=120))
def test_no_trust_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed-trust.yaml"
    path.write_text(text)
    with suppress(ConfigError):
        Trust(path).find(ID)


def test_neither_a_name_nor_a_key_is_given_twice(path: Path) -> None:
    trust_key(path, entry())
    with pytest.raises(ConfigError, match="'plant' is another key's"):
        trust_key(path, entry(key=TWO))
    with pytest.raises(ConfigError, match="trusted already, as 'plant'") as caught:
        trust_key(path, entry("other"))
    assert f"trust --remove {ID}" in caught.value.hint
    assert not trust_key(path, entry(scopes=("new",)))
    assert [one.scopes for one in read_trust(path).keys] == [("new",)]


def test_a_key_is_taken_back_by_name_or_id(path: Path) -> None:
    for name, key in (("a", ONE), ("b", TWO)):
        trust_key(path, entry(name, key))
    assert distrust(path, "nobody") is None
    assert (gone := distrust(path, ID)) is not None
    assert gone.name == "a"
    assert [one.name for one in read_trust(path).keys] == ["b"]


def test_commands_at_the_same_time_lose_nothing(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from enginehost.databus.trust import KeyEntry, trust_key\n"
        "sys.stdin.read()\n"
        "for name, key in zip(sys.argv[2::2], sys.argv[3::2]): trust_key(Path(sys.argv[1]),"
        " KeyEntry(name=name, key=key))\n"
    )
    given = [[(f"{side}{n}", written(new_key().public)) for n in range(10)] for side in "ab"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), *(word for pair in pairs for word in pair)],
            stdin=subprocess.PIPE,
        )
        for pairs in given
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait(30) for writer in writers] == [0, 0]
    assert {one.name for one in read_trust(path).keys} == {name for pairs in given for name, _ in pairs}


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX's")
def test_the_file_keeps_its_mode_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "kept.yaml", tmp_path / "trusted.yaml"
    link.symlink_to(target)
    trust_key(link, entry())
    assert target.stat().st_mode & 0o777 == 0o600
    target.chmod(0o644)
    trust_key(link, entry("other", TWO))
    assert target.stat().st_mode & 0o777 == 0o644
    assert os.path.islink(link)  # noqa: PTH114
    assert len(read_trust(link).keys) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_a_file_that_others_can_write_decides_nothing(path: Path, clock: Clock) -> None:
    trust_key(path, entry())
    trust = Trust(path, clock)
    for mode in (0o620, 0o602):
        path.chmod(mode)
        with pytest.raises(ConfigError, match=f"mode is {mode:04o}") as caught:
            Trust(path)
        assert "chmod" in caught.value.hint
        with pytest.raises(ConfigError, match="other users may write"):
            trust_key(path, entry("other", TWO))
    clock.now += LOOK_EVERY
    assert trust.find(ID) is not None
    assert trust.problem is not None
    path.chmod(0o644)
    Trust(path)


def test_no_key_with_which_anybody_can_sign_is_trusted(path: Path) -> None:
    with pytest.raises(ConfigError, match="anybody can sign"):
        entry(key=written(bytes([1] + [0] * 31)))
    path.parent.mkdir()
    path.write_text(f"keys:\n- name: a\n  key: {written(bytes(32))}\n")
    with pytest.raises(ConfigError, match="anybody can sign") as caught:
        read_trust(path)
    assert caught.value.line == 3


def test_a_missing_file_is_told_only_where_somebody_counts_on_it(tmp_path: Path) -> None:
    assert "nobody's signature" in missing_trust(DatabusConfig(accept="trusted"))
    assert "nobody's signature" in missing_trust(DatabusConfig(trust_file=tmp_path / "none"))
    assert not missing_trust(DatabusConfig(interface="eth0", state_dir=tmp_path))
    trust_key(tmp_path / "t.yaml", entry())
    assert not missing_trust(DatabusConfig(accept="trusted", trust_file=tmp_path / "t.yaml"))


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        trust_key(tmp_path / "file" / "trusted.yaml", entry())

"""Settings that have no effect here are pointed out, and a host runs all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from enginehost.host import Host
from enginehost.settings import load_settings
from enginehost.settings_doubts import DOUBTS, doubts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith("ENGINEHOST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "smss"
    made.mkdir()
    return made


def test_a_folder_of_secrets_that_is_none_is_told(folder: Path) -> None:
    config = folder.parent / "enginehost.yaml"
    config.write_text("secrets: kept\n")
    (found,) = doubts(load_settings(folder), folder)
    assert (found.path, found.code) == (str(config), "secrets-folder")
    assert "kept cannot be read: No such file" in found.message
    (folder.parent / "kept").write_text("")
    (found,) = doubts(load_settings(folder), folder)
    assert "kept cannot be read: Not a directory" in found.message
    (folder.parent / "kept").unlink()
    (folder.parent / "kept").mkdir()
    assert list(doubts(load_settings(folder), folder)) == []


def test_settings_in_the_folder_of_smss_files_are_told_unless_they_are_read(folder: Path) -> None:
    inside = folder / "enginehost.yaml"
    inside.write_text("drain_seconds: 3\n")
    (found,) = doubts(load_settings(folder), folder)
    assert (found.path, found.code) == (str(inside), "unread-settings")
    assert f"move it to {folder.parent}" in found.hint
    assert list(doubts(load_settings(folder, config=inside), folder)) == []


async def test_a_host_has_them_among_its_problems(folder: Path) -> None:
    (folder / "enginehost.yaml").write_text("drain_seconds: 3\n")
    (folder.parent / "enginehost.yaml").write_text(
        "secrets: kept\npolicy: {default: call, rules: [{deny: call, faces: [htpp]}]}\n"
    )
    async with Host(folder, None, watch=False) as host:
        assert {found.code for found in host.problems()} == {*DOUBTS, "policy-word"}

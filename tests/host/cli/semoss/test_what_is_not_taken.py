"""What belongs to no engine, leads out of the folder or is left over is not taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.host.cli.conftest import Cli

from .conftest import codes, only
from .files import OLD_LAYOUT, SUMS, SUMS_SCRIPT, export, lay_out, tree


def test_what_does_not_belong_to_an_engine_is_noted(imported: Any, home: Path) -> None:
    files = {"E9__9.temp": "", "Lost__8/x": "", "inner.zip": "PK", "README.md": "hello"}
    report = imported(OLD_LAYOUT | files)
    assert sorted(note["path"] for note in report["notes"]) == ["E9__9.temp", "Lost__8", "inner.zip"]
    assert tree(home / "out") == OLD_LAYOUT


def test_an_archive_in_an_archive_is_noted_and_one_in_an_engine_is_its_own(cli: Cli, home: Path) -> None:
    inside = f"{SUMS}/data.zip"
    export(home / "a.zip", OLD_LAYOUT | {inside: "PK", "B__2.zip": "PK"})
    done = cli("import", "semoss", "a.zip", "--to", "out", "--json")
    assert [note["path"] for note in done.json["notes"]] == ["B__2.zip"]
    assert inside in tree(home / "out")


def test_links_that_lead_out_of_the_folder_are_not_followed(imported: Any, home: Path) -> None:
    (home / "secret.txt").write_text("of the machine")
    (home / "machine").mkdir()
    (home / "machine" / "more.txt").write_text("of the machine")
    engine_folder = lay_out(home / "function", OLD_LAYOUT) / SUMS
    (engine_folder / "leak.txt").symlink_to(home / "secret.txt")
    (engine_folder / "machine").symlink_to(home / "machine")
    (engine_folder / "inner.py").symlink_to("order_sums.py")
    os.mkfifo(engine_folder / "pipe")
    report = imported({})
    noted = sorted(note["path"] for note in report["notes"])
    assert noted == [f"{SUMS}/leak.txt", f"{SUMS}/machine", f"{SUMS}/pipe"]
    assert tree(home / "out") == OLD_LAYOUT | {f"{SUMS}/inner.py": SUMS_SCRIPT}


def test_a_smss_file_that_is_a_link_out_of_the_folder_is_left_out(imported: Any, home: Path) -> None:
    lay_out(home / "elsewhere", OLD_LAYOUT)
    source = lay_out(home / "function", {f"{SUMS}/order_sums.py": SUMS_SCRIPT})
    (source / f"{SUMS}.smss").symlink_to(home / "elsewhere" / f"{SUMS}.smss")
    report = imported({}, "--all", code=1)
    assert (only(report)["action"], codes(only(report))) == ("left out", ["unreadable"])
    assert [note["path"] for note in report["notes"]] == [f"{SUMS}.smss"]
    assert not (home / "out").exists()


def test_history_caches_and_wide_permissions_are_not_taken(imported: Any, home: Path) -> None:
    extra = {
        f"{SUMS}/app_root/version/.git/config": "x",
        f"{SUMS}/__pycache__/order_sums.cpython-311.pyc": "x",
    }
    source = lay_out(home / "function", OLD_LAYOUT | extra)
    (source / f"{SUMS}.smss").chmod(0o600)
    (source / SUMS / "order_sums.py").chmod(0o4755)
    imported({})
    assert tree(home / "out") == OLD_LAYOUT
    assert (home / "out" / f"{SUMS}.smss").stat().st_mode & 0o7777 == 0o600
    assert (home / "out" / SUMS / "order_sums.py").stat().st_mode & 0o7777 == 0o755

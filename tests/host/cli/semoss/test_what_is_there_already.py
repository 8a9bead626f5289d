"""What the folder served has already is overwritten only where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli

from .conftest import codes, only
from .files import OLD_LAYOUT, SUMS, SUMS_SMSS, lay_out, tree


def test_a_second_import_changes_nothing(imported: Any, home: Path) -> None:
    imported(OLD_LAYOUT)
    before = (home / "out" / f"{SUMS}.smss").stat().st_ino
    (home / "out" / SUMS / "cache.db").write_text("written by the function")
    assert only(imported(OLD_LAYOUT))["action"] == "already there"
    assert (home / "out" / f"{SUMS}.smss").stat().st_ino == before


@pytest.mark.parametrize("name", [f"{SUMS}.smss", f"{SUMS}/order_sums.py"])
def test_an_engine_that_was_edited_is_overwritten_with_force_only(
    imported: Any, home: Path, name: str
) -> None:
    imported(OLD_LAYOUT)
    edited = OLD_LAYOUT | {name: OLD_LAYOUT[name] + "# mine\n"}
    lay_out(home / "out", edited)
    lay_out(home / "out", {f"{SUMS}/of_old.py": ""})
    assert only(imported(OLD_LAYOUT, code=1))["action"] == "not overwritten"
    assert tree(home / "out") == edited | {f"{SUMS}/of_old.py": ""}
    assert only(imported(OLD_LAYOUT, "--force"))["action"] == "replaced"
    assert tree(home / "out") == OLD_LAYOUT


def test_a_folder_alone_that_is_there_is_not_overwritten_either(imported: Any, home: Path) -> None:
    lay_out(home / "out", {f"{SUMS}/precious": "1"})
    assert only(imported(OLD_LAYOUT, code=1))["action"] == "not overwritten"
    assert tree(home / "out") == {f"{SUMS}/precious": "1"}


def test_a_link_in_the_folder_served_is_replaced_and_not_written_through(imported: Any, home: Path) -> None:
    outside = home / "precious.smss"
    outside.write_text("1")
    (home / "out").mkdir()
    (home / "out" / f"{SUMS}.smss").symlink_to(outside)
    assert only(imported(OLD_LAYOUT, "--force"))["action"] == "replaced"
    assert outside.read_text() == "1"
    assert tree(home / "out") == OLD_LAYOUT


def test_an_engine_that_is_there_under_another_name_does_not_come_twice(imported: Any, home: Path) -> None:
    lay_out(home / "out", {"renamed.smss": SUMS_SMSS})
    file = only(imported(OLD_LAYOUT, "--force", code=1))
    assert (file["action"], codes(file)) == ("not overwritten", ["duplicate-engine-id"])
    assert tree(home / "out") == {"renamed.smss": SUMS_SMSS}


def test_a_function_name_that_is_taken_is_told(imported: Any, home: Path) -> None:
    lay_out(home / "out", {"mine.smss": "ENGINE_CLASS = LocalPython\nFUNCTION_NAME = sum_order\n"})
    file = only(imported(OLD_LAYOUT))
    assert (file["verdict"], file["action"]) == ("runs with warnings", "imported")
    assert codes(file) == ["name-conflict"]


def test_two_files_with_one_id_do_not_both_come(imported: Any) -> None:
    second = {"Copy.smss": SUMS_SMSS}
    actions = {one["file"]: one["action"] for one in imported(OLD_LAYOUT | second, code=1)["files"]}
    assert sorted(actions.values()) == ["imported", "not overwritten"]


def test_two_files_of_one_name_in_two_folders_are_told(imported: Any) -> None:
    files = {f"{place}/{name}": text for place in ("a", "b") for name, text in OLD_LAYOUT.items()}
    first, second = imported(files, code=1)["files"]
    assert (first["action"], second["action"], codes(second)) == ("imported", "left out", ["same-name"])


def test_the_folder_served_itself_is_only_judged(cli: Cli, home: Path) -> None:
    lay_out(home / "here", OLD_LAYOUT)
    done = cli("import", "semoss", "here", "--to", "here", "--json")
    assert (done.code, only(done.json)["action"]) == (0, "already there")
    assert tree(home / "here") == OLD_LAYOUT

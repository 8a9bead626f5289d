"""The module of a reactor comes with what it imports, and nobody else's is overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli

from .conftest import only
from .files import ADDS, REACTOR_FILES, REACTOR_SCRIPT, REACTOR_SMSS, lay_out, tree


@pytest.mark.parametrize("place", ["", "Sum__9/", "Sum__9/py/", "Sum__9/app_root/version/assets/"])
def test_the_module_of_a_reactor_and_what_it_imports_come_along(
    imported: Any, cli: Cli, home: Path, place: str
) -> None:
    files = {
        "Sum__9.smss": REACTOR_SMSS.format(module="sums"),
        f"{place}sums.py": REACTOR_SCRIPT.format(imports="from adding.up import add"),
        f"{place}adding/up.py": "from .plus import add\n",
        f"{place}adding/plus.py": ADDS,
    }
    beside = {"unused.py": "1/0", "adding/unused.py": "1/0"}
    assert only(imported(files | beside))["verdict"] == "runs"
    assert tree(home / "out") == files
    assert cli("call", "sum_up", "--folder", "out", "lines:=[1, 2]").out == "3\n"
    assert only(imported(files))["action"] == "already there"


def test_a_package_comes_whole_and_a_class_in_it_is_found(imported: Any, home: Path) -> None:
    files = {
        "Sum__9.smss": REACTOR_SMSS.format(module="pack.r"),
        "pack/__init__.py": "from pack.deep.a import add\n",
        "pack/r.py": REACTOR_SCRIPT.format(imports="from . import add"),
        "pack/deep/a.py": ADDS,
        "pack/x.json": "{}",
    }
    assert only(imported(files))["action"] == "imported"
    assert tree(home / "out") == files


def test_a_module_that_another_reactor_shares_is_neither_twice_nor_overwritten(
    imported: Any, home: Path
) -> None:
    other = REACTOR_FILES | {
        "Sum__8.smss": REACTOR_FILES["Sum__9.smss"].replace("\t9", "\t8").replace("sum_up", "other")
    }
    imported(REACTOR_FILES)
    lay_out(home / "out", {"lib/mine.py": "1"})
    before = (home / "out" / "lib" / "sums.py").stat().st_ino
    done = imported(other)
    assert [one["action"] for one in done["files"]] == ["imported", "already there"]
    assert (home / "out" / "lib" / "sums.py").stat().st_ino == before
    lay_out(home / "out", {"lib/sums.py": REACTOR_FILES["lib/sums.py"] + "# mine\n"})
    assert {one["action"] for one in imported(other, code=1)["files"]} == {"not overwritten"}
    assert {one["action"] for one in imported(other, "--force")["files"]} == {"replaced"}
    assert tree(home / "out") == other | {"lib/mine.py": "1"}


def test_a_link_in_the_place_of_a_modules_folder_is_not_written_through(imported: Any, home: Path) -> None:
    (home / "precious").mkdir()
    (home / "out").mkdir()
    (home / "out" / "lib").symlink_to(home / "precious")
    assert only(imported(REACTOR_FILES, code=1))["action"] == "not overwritten"
    assert only(imported(REACTOR_FILES, "--force"))["action"] == "replaced"
    assert list((home / "precious").iterdir()) == []
    assert tree(home / "out") == REACTOR_FILES


def test_a_reactor_without_its_module_is_told_where_it_is_looked_for(imported: Any) -> None:
    file = only(imported({"Sum__9.smss": REACTOR_SMSS.format(module="sums"), "Sum__9/x": ""}, code=1))
    (found,) = [one for one in file["diagnostics"] if one["severity"] == "error"]
    assert found["message"] == "REACTOR_CLASS_NAME: there is no module sums"
    assert found["hint"] == "put sums.py beside the smss file, or into Sum__9, or install the package"

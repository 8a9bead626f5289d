"""What SEMOSS wrote, as a folder or an archive, is taken as it is and serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli, running

from .conftest import only
from .files import NEW_LAYOUT, OLD_LAYOUT, SUMS, export, tree


@pytest.mark.parametrize("files", [OLD_LAYOUT, NEW_LAYOUT], ids=["2024", "2026"])
def test_a_folder_of_semoss_is_taken_as_it_is_and_serves(
    cli: Cli, imported: Any, home: Path, files: dict[str, str]
) -> None:
    file = only(imported(files))
    assert (file["file"], file["verdict"], file["action"]) == (f"{SUMS}.smss", "runs", "imported")
    assert file["functions"] == ["sum_order"]
    assert tree(home / "out") == files
    assert cli("call", "sum_order", "--folder", "out", "--json", '{"amounts": [1, 2]}').out == "3\n"


def test_an_export_archive_is_taken_as_it_is_and_serves(cli: Cli, home: Path) -> None:
    export(home / "export.zip", NEW_LAYOUT)
    done = cli("import", "semoss", "export.zip", "--to", "out")
    assert done.code == 0
    assert "1 file: 1 runs" in done.out
    assert tree(home / "out") == NEW_LAYOUT
    assert cli("call", "sum_order", "--folder", "out", "--json", '{"amounts": [1, 2]}').out == "3\n"


def test_an_archive_that_holds_the_whole_base_folder_is_taken_too(cli: Cli, home: Path) -> None:
    files = {f"base/function/{name}": text for name, text in NEW_LAYOUT.items()}
    files["base/model/M__1.smss"] = "ENGINE\t1\nENGINE_TYPE\tprerna.engine.impl.model.OpenAiEngine\n"
    done = cli("import", "semoss", str(export(home / "all.zip", files)), "--to", "out", "--json")
    assert [one["verdict"] for one in done.json["files"]] == ["runs", "other type"]
    assert tree(home / "out") == NEW_LAYOUT


def test_the_folder_served_is_the_default(cli: Cli, home: Path) -> None:
    export(home / "export.zip", NEW_LAYOUT)
    assert cli("import", "semoss", "export.zip").code == 0
    assert (home / "smss" / f"{SUMS}.smss").is_file()


def test_a_running_host_serves_what_is_imported(cli: Cli, home: Path, folder: Path) -> None:
    export(home / "export.zip", NEW_LAYOUT)
    with running(folder) as host:
        assert cli("import", "semoss", "export.zip").code == 0
        assert host.process.stderr is not None
        next(line for line in host.process.stderr if "(sum_order)" in line)
        assert cli("call", "sum_order", "--url", host.url, "--json", '{"amounts": [1]}').out == "1\n"

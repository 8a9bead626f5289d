"""What the command tells: of words that make no sense, and of each file in a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host.cli.conftest import Cli, write

from .files import OLD_LAYOUT, SUMS, engine, lay_out, python


@pytest.mark.parametrize(
    ("source", "to", "message"),
    [
        ("nowhere", "out", "there is no nowhere"),
        ("empty", "out", "there is no smss file in empty"),
        ("smss/add.smss", "out", "single file"),
        ("text.txt", "out", "text.txt is no ZIP archive"),
        ("smss", "smss/inner", "lie in one another"),
        ("smss/inner", "smss", "lie in one another"),
        ("smss", "text.txt", "is no folder"),
    ],
)
def test_a_source_or_target_that_makes_no_sense_is_told(
    cli: Cli, home: Path, source: str, to: str, message: str
) -> None:
    (home / "empty").mkdir()
    (home / "smss" / "inner").mkdir()
    write(home, {"text.txt": "text"})
    done = cli("import", "semoss", source, "--to", to)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (home / "out").exists()


def test_the_table_says_for_each_file_what_it_is_and_why(cli: Cli, home: Path) -> None:
    other = engine("model.M", 2, package="prerna.engine.impl.")
    lay_out(home / "function", OLD_LAYOUT | python("") | other)
    done = cli("import", "semoss", "function", "--to", "out")
    assert done.code == 1
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[:4] == [
        "FILE FUNCTION VERDICT ACTION",
        "E1__1.smss f1 cannot left out",
        "E2__2.smss - other type (model) left out",
        f"{SUMS}.smss sum_order runs imported",
    ]
    assert "E1__1.smss:6:1: error: PYTHON_FILE_NAME: there is no file main.py [script-missing]" in lines
    assert lines[-2:] == ["3 files: 1 runs, 1 cannot, 1 other type", "into out: 1 imported, 2 left out"]


def test_a_name_that_would_steer_a_terminal_does_not(cli: Cli, home: Path) -> None:
    lay_out(home / "function", {"E\x1b[2J__1.smss": "ENGINE\t1\n"})
    done = cli("import", "semoss", "function", "--to", "out")
    assert "\x1b" not in done.out + done.err

"""An import that is tried, fails or is stopped leaves the folder served as it was."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli

from enginehost.cli.semoss import placing

from .conftest import only
from .files import (
    OLD_LAYOUT,
    REACTOR_FILES,
    SUMS,
    SUMS_SMSS,
    TIDES,
    TIDES_SMSS,
    Raw,
    lay_out,
    python,
    raw_archive,
    tree,
)


def test_a_dry_run_writes_nothing(imported: Any, home: Path) -> None:
    report = imported(OLD_LAYOUT, "--dry-run")
    assert (report["dry_run"], only(report)["action"]) == (True, "imported")
    assert not (home / "out").exists()
    assert {path.name for path in home.iterdir()} == {"smss", "function", "state"} & {
        path.name for path in home.iterdir()
    }


def test_a_move_that_fails_undoes_those_before_it(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(home / "out", {f"{SUMS}.smss": "old", f"{SUMS}/old.py": "old"})
    before = tree(home / "out")
    lay_out(home / "function", OLD_LAYOUT | REACTOR_FILES | {f"{TIDES}.smss": TIDES_SMSS})
    move = placing._move

    def failing(source: Path, goal: Path, moved: list[tuple[Path, Path]]) -> None:
        if goal.name.startswith("Tide"):
            raise OSError(28, "No space left on device", str(goal))
        move(source, goal, moved)

    monkeypatch.setattr(placing, "_move", failing)
    done = cli("import", "semoss", "function", "--to", "out", "--force")
    assert done.code == 2
    assert "No space left on device" in done.err
    assert tree(home / "out") == before
    assert sorted(path.name for path in (home / "out").iterdir()) == [SUMS, f"{SUMS}.smss"]


def test_an_archive_that_is_refused_leaves_nothing_behind(cli: Cli, home: Path) -> None:
    entries = [Raw(f"{SUMS}.smss".encode(), SUMS_SMSS.encode()), Raw(b"../../evil.smss")]
    raw_archive(home / "bad.zip", entries)
    done = cli("import", "semoss", "bad.zip", "--to", "new/out", "--json")
    assert done.code == 2
    assert "leads out of" in done.error["message"]
    assert done.error["detail"]["hint"]
    assert not (home / "new").exists()
    assert not list(home.rglob("evil.smss"))


def test_an_import_that_is_stopped_leaves_nothing_behind(folder: Path, home: Path) -> None:
    mark = home / "mark"
    script = f"import os, time\nopen({str(mark)!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(600)\n"
    lay_out(home / "function", OLD_LAYOUT | python(f"{script}def f1(): pass\n"))
    words = ("import", "semoss", "function", "--to", "new/out")
    process = subprocess.Popen([sys.executable, "-m", "enginehost", *words], cwd=home)
    try:
        while not mark.exists() or not mark.read_text().endswith(" "):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == 143
    finally:
        process.kill()
    assert not (home / "new").exists()
    worker = Path("/proc", mark.read_text().strip())
    until = time.monotonic() + 20
    while worker.exists():
        assert time.monotonic() < until, "the process that loads the script is still there"
        time.sleep(0.01)

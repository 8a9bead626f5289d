"""``enginehost import semoss``, run on files as SEMOSS writes them, and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli

from .files import lay_out


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the commands run."""
    return tmp_path


@pytest.fixture
def imported(cli: Cli, home: Path) -> Any:
    """``imported(files, "--force")``: import a folder of these files into ``out``; the report as JSON."""

    def run(files: dict[str, str], *words: str, code: int = 0) -> Any:
        source = lay_out(home / "function", files)
        done = cli("import", "semoss", str(source), "--to", "out", "--json", *words)
        assert done.code == code, (done.out, done.err)
        return done.json

    return run


def only(report: Any) -> Any:
    (file,) = report["files"]
    return file


def codes(file: Any) -> list[str]:
    return [found["code"] for found in file["diagnostics"]]

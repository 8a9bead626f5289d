"""A secret in clear text is told but not shown, and what is none is not told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.cli.conftest import Cli

from .conftest import codes, only
from .files import TIDES, TIDES_SMSS, lay_out, python, tree

SECRET = "s3cr3t-of-the-customer"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("API_KEY_VALUE", SECRET),
        ("AUTH_PASSWORD", SECRET),
        ("HEADERS", '{"X-Api-Key": "' + SECRET + '"}'),
        ("HEADERS", '{"Authorization": "Bearer ' + SECRET + '"}'),
        ("HEADERS", "{'authorization': 'Basic " + SECRET + "'}"),
        ("URL", f"https://tides.example.invalid/?api_key={SECRET}"),
        ("SECRET_KEY", SECRET),
    ],
)
def test_a_secret_in_clear_text_is_kept_and_told_but_not_shown(
    cli: Cli, home: Path, key: str, value: str
) -> None:
    lines = [line for line in TIDES_SMSS.splitlines() if not line.startswith(f"{key} ")]
    text = "\n".join([*lines, f"{key} = {value}", ""])
    lay_out(home / "function", {f"{TIDES}.smss": text})
    done = cli("import", "semoss", "function", "--to", "out", "--json")
    assert done.code == 0
    file = only(done.json)
    (found,) = (one for one in file["diagnostics"] if one["code"] == "secret-in-file")
    assert file["verdict"] == "runs with warnings"
    assert found["line"] == len(lines) + 1
    assert key in found["message"]
    assert SECRET not in done.out
    assert SECRET not in done.err
    assert tree(home / "out") == {f"{TIDES}.smss": text}


def test_a_secret_in_the_commands_that_run_first_is_told(imported: Any) -> None:
    more = f"INIT_FUNCTION_ENGINE\tapi_key = '{SECRET}'\n"
    assert "secret-in-file" in codes(only(imported(python("def f1(): pass\n", more=more))))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("HEADERS", '{"Authorization": "Bearer ${env:TIDE_TOKEN:-x}", "Accept": "text/plain"}'),
        ("HEADERS", '{"X-Api-Key": ""}'),
        ("API_KEY_HEADER_NAME", "X-Api-Key"),
        ("URL", "https://tides.example.invalid/?page=2"),
    ],
)
def test_what_is_no_secret_is_not_told(imported: Any, key: str, value: str) -> None:
    lines = [line for line in TIDES_SMSS.splitlines() if not line.startswith(f"{key} ")]
    report = imported(
        {f"{TIDES}.smss": "\n".join([*lines, f"{key} = {value}", ""])}, "--dry-run", "--no-load"
    )
    assert "secret-in-file" not in codes(only({"files": report["files"]}))


def test_a_secret_is_told_of_a_file_too_that_comes_to_be_mended(imported: Any) -> None:
    files = python("", more=f"INIT_FUNCTION_ENGINE\tapi_key = '{SECRET}'\n")
    assert codes(only(imported(files, "--all", code=1))) == ["script-missing", "secret-in-file"]

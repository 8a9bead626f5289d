"""``enginehost import openapi`` as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SPEC = """\
openapi: 3.1.0
info: {title: My Service, version: "1"}
servers: [{url: http://127.0.0.1:9}]
paths:
  /a:
    get: {operationId: first, summary: The first., responses: {"200": {description: ok}}}
    trace: {responses: {"200": {description: ok}}}
  /b/{x}:
    get: {operationId: second, responses: {"200": {description: ok}}}
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enginehost", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_it_writes_reports_and_leaves_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(SPEC)
    dry = run(tmp_path, "import", "openapi", "api.yaml", "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    assert not (tmp_path / "smss").exists()
    assert json.loads(dry.stdout)["counts"] == {"created": 2}

    done = run(tmp_path, "import", "openapi", "api.yaml")
    assert done.returncode == 0, done.stderr
    assert "api.yaml:7: left out: TRACE /a: the REST engine has no TRACE" in done.stdout
    assert "api.yaml:8: GET /b/{x}: {x} in the path is not declared" in done.stdout
    assert "smss/my-service: 2 functions (2 created), 1 left out" in done.stdout
    checked = run(tmp_path, "validate", "--strict", "smss")
    assert checked.returncode == 0, checked.stdout

    again = json.loads(run(tmp_path, "import", "openapi", "api.yaml", "--json").stdout)
    assert again["counts"] == {"unchanged": 2}
    assert again["skipped"][0]["pointer"] == "/paths/~1a/trace"
    listed = json.loads(run(tmp_path, "list", "--json").stdout)
    assert [one["name"] for one in listed] == ["first", "second"]


def test_a_document_that_cannot_be_read_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"swagger": "2.0"}')
    done = run(tmp_path, "import", "openapi", "old.json", "--json")
    assert done.returncode == 78
    error = json.loads(done.stderr)["error"]
    assert "Swagger 2.0" in error["message"]
    assert "convert" in error["detail"]["hint"]
    assert run(tmp_path, "import", "openapi", "none.json").returncode == 78


def test_a_base_url_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(SPEC)
    done = run(tmp_path, "import", "openapi", "api.yaml", "--base-url", "ftp://x")
    assert done.returncode == 78
    assert "--base-url" in done.stderr


def test_nothing_that_matches_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(SPEC)
    assert run(tmp_path, "import", "openapi", "api.yaml", "--include", "nothing").returncode == 1

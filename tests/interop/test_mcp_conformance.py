"""The conformance suite of the Model Context Protocol, against a folder of smss files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

FOLDER = Path(__file__).parent / "mcp_conformance"
INSTALLED = Path(__file__).parents[2] / ".peers" / "mcp-conformance" / "node_modules"
NODE = INSTALLED / "node" / "bin" / "node"
SUITE = INSTALLED / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REVISIONS = ["2026-07-28", "2025-11-25"]
FURTHER = ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"]
"""Scenarios that the newest revision does not score yet."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """``/mcp`` of a host that serves the fixture as anybody would."""
    if not NODE.exists() or not SUITE.exists():
        pytest.skip("npm install --prefix .peers/mcp-conformance node@22 @modelcontextprotocol/conformance")
    folder = tmp_path / "smss"
    shutil.copytree(FOLDER, folder)
    (tmp_path / "enginehost.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")
    words = ["-m", "enginehost", "run", str(folder), "--http", "127.0.0.1:0", "--no-bus", "--json"]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as host:
        try:
            assert host.stderr is not None
            ready = next(line for line in host.stderr if '"event":"ready"' in line)
            threading.Thread(target=host.stderr.read, daemon=True).start()
            assert json.loads(ready)["problems"] == 0
            yield f"{json.loads(ready)['http']}/mcp"
        finally:
            host.terminate()
            host.wait(20)


def run(url: str, *words: str) -> str:
    done = subprocess.run(
        [NODE, SUITE, "server", "--url", url, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_required_scenario_passes(url: str, revision: str) -> None:
    said = run(url, "--requirements", revision)
    _, _, summary = said.partition("=== SUMMARY ===")
    assert summary.count("✓") > 25
    scored = summary.partition("Not scored")[0]
    refused = [line for line in scored.splitlines() if line.startswith("✗")]
    assert not [line for line in refused if not line.startswith("✗ tasks-")], said


@pytest.mark.parametrize("scenario", FURTHER)
def test_scenarios_that_are_not_scored_yet_pass(url: str, scenario: str) -> None:
    assert "0 failed" in run(url, "--scenario", scenario, "--spec-version", "2026-07-28")

"""Keys of a file that are wrong are told at their place, and nothing is started to find out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from enginehost.diagnostics import Severity
from enginehost.testing import load_engine
from enginehost_engines.mcp import McpEngine

ECHO = 'MCP_COMMAND = ["echo"]'


@pytest.mark.parametrize(
    ("keys", "code", "says"),
    [
        ("", "no-server", "neither MCP_COMMAND nor MCP_URL"),
        (f"{ECHO}\nMCP_URL = http://127.0.0.1/mcp", "no-server", "both say"),
        ("MCP_COMMAND = []", "bad-value", "MCP_COMMAND"),
        ("MCP_COMMAND = npx server", "", "MCP_COMMAND"),
        ('MCP_COMMAND = {"a": 1}', "bad-value", "MCP_COMMAND"),
        ("MCP_URL = ftp://host/mcp", "bad-url", "MCP_URL"),
        ("MCP_URL = http://user:word@host/mcp", "bad-url", "MCP_URL"),
        ("MCP_URL = http://host/{name}", "bad-value", "MCP_URL"),
        ('MCP_URL = http://host/mcp\nHEADERS = {"a b": "c"}', "bad-header", "HEADERS"),
        ("MCP_URL = http://host/mcp\nAUTH = bearer", "bad-value", "AUTH_TOKEN"),
        ("MCP_URL = http://host/mcp\nAUTH = oauth", "bad-value", "AUTH"),
        (f'{ECHO}\nMCP_ENV = {{"a=b": "c"}}', "bad-value", "MCP_ENV"),
        (f"{ECHO}\nMCP_FOLDER = nowhere", "folder-missing", "MCP_FOLDER"),
        (f"{ECHO}\nMCP_RECONNECT_SECONDS = 0", "bad-value", "MCP_RECONNECT_SECONDS"),
    ],
)
def test_a_mistake_is_an_error_that_names_its_key(keys: str, code: str, says: str, tmp_path: Path) -> None:
    loaded = load_engine(McpEngine, f"ENGINE_CLASS = MCP\n{keys}\n", tmp_path)
    errors = [one for one in loaded.record.diagnostics if one.severity is Severity.ERROR]
    assert loaded.engine is None
    assert errors
    assert says in errors[0].message
    assert not code or errors[0].code == code


def test_a_secret_stands_in_no_finding(tmp_path: Path) -> None:
    text = 'ENGINE_CLASS = MCP\nMCP_URL = http://host/mcp\nAUTH_TOKEN = "line\\nbreak-of-secret"\n'
    loaded = load_engine(McpEngine, text, tmp_path)
    assert "break-of-secret" not in " ".join(map(str, loaded.record.diagnostics))


def test_keys_of_a_single_function_are_told_to_have_no_effect(tmp_path: Path) -> None:
    text = f"ENGINE_CLASS = MCP\n{ECHO}\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"
    loaded = load_engine(McpEngine, text, tmp_path)
    assert loaded.engine is not None
    assert {one.code for one in loaded.record.diagnostics} == {"no-effect"}


def test_without_the_sdk_the_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    loaded = load_engine(McpEngine, f"ENGINE_CLASS = MCP\n{ECHO}\n", tmp_path)
    (found,) = loaded.record.diagnostics
    assert found.code == "missing-extra"
    assert "enginehost[mcp]" in found.hint


def test_a_file_is_validated_without_starting_its_server_or_loading_the_sdk(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    command = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
    (tmp_path / "a.smss").write_text(f"ENGINE_CLASS = MCP\nMCP_COMMAND = {json.dumps(command)}\n")
    program = (
        "import sys\nfrom enginehost.cli import main\n"
        "try:\n    main()\nexcept SystemExit as error:\n    code = error.code\n"
        "assert not code, code\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "validate", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not mark.exists()

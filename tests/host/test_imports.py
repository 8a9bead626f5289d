"""What ``import enginehost`` and ``enginehost --help`` load: both stay light."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

IMPORT = {"enginehost"}
HELP = IMPORT | {
    "enginehost.cli",
    "enginehost.cli.app",
    "enginehost.cli.failures",
    "enginehost.cli.lazy",
    "enginehost.cli.secrecy",
    "enginehost.cli.usage",
    "enginehost.entrypoints",
    "enginehost.errors",
}
HELP_LIBRARIES = {
    "annotated_doc",
    "attr",
    "attrs",
    "markdown_it",
    "mdurl",
    "pygments",
    "rich",
    "shellingham",
    "typer",
}
"""typer's own, for a help page (rich looks for attrs)."""


VENDORS = {"anthropic", "boto3", "botocore", "google", "openai"}
SERVERS = {"cyclonedds", "prometheus_client", "starlette", "uvicorn"}
HEAVY = VENDORS | SERVERS | {"httpx2", "jsonschema", "mcp", "numpy", "pandas", "polars"}

RAW_SERVER = Path(__file__).parents[1] / "engines" / "mcp" / "raw_server.py"
FILES = {
    "LocalPython": "PYTHON_SCRIPT_PATH = work_code.py\nPYTHON_FUNCTION_NAME = work",
    "REST": "URL = http://127.0.0.1:9/",
    "prerna.engine.impl.function.StreamRESTFunctionEngine": "URL = http://127.0.0.1:9/",
    "OpenAPI": "OPENAPI_SPEC = document.json",
    "Reactor": "REACTOR_CLASS_NAME = work_code.WorkReactor",
    "PythonClass": "",
    "Command": 'COMMAND = ["echo"]',
    "Agent": "INSTRUCTIONS = Be kind.",
    "MCP": "MCP_COMMAND = " + json.dumps([sys.executable, str(RAW_SERVER), "plain"]),
}
"""A file of each kind of engine that there is."""
OF_MANY = {"OpenAPI": "look", "MCP": "go"}
"""Those that bring their own functions, and its name."""
CODE = """
import library_of_the_author
from enginehost import AbstractFunctionEngine
from enginehost.reactor import Reactor

def work():
    pass

class WorkReactor(Reactor):
    keys_to_get = ()

class Work(AbstractFunctionEngine):
    def execute(self, parameters):
        return 1
"""
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "One", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {"/": {"get": {"operationId": "look", "responses": {"200": {"description": "It"}}}}},
}


OF_REST = {kind for kind in FILES if "REST" in kind} | {"OpenAPI"}


class Loaded(NamedTuple):
    """The host's modules and the foreign top-level packages that a program loads, and what it prints."""

    own: set[str]
    foreign: set[str]
    printed: list[str]


def loaded(code: str) -> Loaded:
    report = (
        "import json, sys; before = set(sys.modules)\n"
        + code
        + ("\nprint('\\n' + json.dumps(sorted(set(sys.modules) - before)))")
    )
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, timeout=60, check=True
    )
    *printed, last = done.stdout.splitlines()
    modules = json.loads(last)
    own = {name for name in modules if name.partition(".")[0] in ("enginehost", "enginehost_engines")}
    foreign = {name.partition(".")[0] for name in set(modules) - own} - sys.stdlib_module_names
    return Loaded(own, foreign, printed)


def command_line(*words: str) -> Loaded:
    command = f"main({list(words)!r})"
    return loaded(f"from enginehost.cli import main\ntry:\n    {command}\nexcept SystemExit:\n    pass")


def test_import_enginehost_loads_nothing_else() -> None:
    assert loaded("import enginehost") == (IMPORT, set(), [""])


def test_help_loads_typer_and_what_it_needs_only() -> None:
    found = command_line("--help")
    assert found.own == HELP
    assert found.foreign <= HELP_LIBRARIES


def test_there_is_a_file_of_each_kind_of_engine() -> None:
    provided = distribution("enginehost").entry_points.select(group="enginehost.engines")
    assert {one.value for one in provided} == {one.value for one in provided if one.name in FILES}
    assert {one.name for one in provided} >= set(FILES)


@pytest.mark.parametrize(
    ("kinds", "needed"),
    [
        (set[str](), set[str]()),
        (set(FILES) - OF_REST - {"MCP"}, set()),
        (set(FILES) - {"MCP"}, {"httpx2"}),
        (set(FILES), {"httpx2", "mcp", "starlette", "uvicorn"}),  # MCP's SDK holds its server too
    ],
    ids=["none", "neither REST nor MCP", "all but MCP", "all"],
)
def test_list_loads_no_server_no_vendors_and_no_authors_library_but_what_its_files_call_with(
    kinds: set[str], needed: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "library_of_the_author.py").touch()
    (folder / "work_code.py").write_text(CODE)
    (folder / "document.json").write_text(json.dumps(DOCUMENT))
    for number, kind in enumerate(sorted(kinds)):
        engine_class = "work_code:Work" if kind == "PythonClass" else kind
        name = "" if kind in OF_MANY else f"FUNCTION_NAME = f{number}\nFUNCTION_DESCRIPTION = Does it.\n"
        (folder / f"{number}.smss").write_text(f"ENGINE_CLASS = {engine_class}\n{name}{FILES[kind]}\n")
    found = command_line("list", str(folder), "--json")
    names = {one["name"] for one in json.loads("".join(found.printed)) if one["state"] == "ready"}
    assert names == {OF_MANY.get(kind, f"f{number}") for number, kind in enumerate(sorted(kinds))}
    assert "enginehost.serve.app" not in found.own
    assert found.foreign & (HEAVY | {"library_of_the_author", "work_code"}) <= needed

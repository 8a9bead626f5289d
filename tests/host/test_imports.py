"""What ``import enginehost`` and ``enginehost --help`` load: both stay light."""

from __future__ import annotations

import json
import subprocess
import sys

IMPORT = {"enginehost"}
HELP = IMPORT | {
    "enginehost.cli",
    "enginehost.cli.app",
    "enginehost.cli.failures",
    "enginehost.cli.lazy",
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


def loaded(code: str) -> tuple[set[str], set[str]]:
    """The host's modules and the foreign top-level packages that a program loads."""
    report = (
        "import json, sys; before = set(sys.modules)\n"
        + code
        + ("\nprint('\\n' + json.dumps(sorted(set(sys.modules) - before)))")
    )
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, timeout=60, check=True
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    own = {name for name in modules if name.partition(".")[0] in ("enginehost", "enginehost_engines")}
    foreign = {name.partition(".")[0] for name in set(modules) - own} - sys.stdlib_module_names
    return own, foreign


def test_import_enginehost_loads_nothing_else() -> None:
    assert loaded("import enginehost") == (IMPORT, set())


def test_help_loads_typer_and_what_it_needs_only() -> None:
    own, foreign = loaded(
        "from enginehost.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    )
    assert own == HELP
    assert foreign <= HELP_LIBRARIES


def test_list_loads_neither_server_nor_vendor_libraries(tmp_path: object) -> None:
    command = f"main(['list', {str(tmp_path)!r}])"
    code = f"from enginehost.cli import main\ntry:\n    {command}\nexcept SystemExit:\n    pass"
    own, foreign = loaded(code)
    assert "enginehost.serve.app" not in own
    assert foreign.isdisjoint(
        {
            "anthropic",
            "boto3",
            "botocore",
            "cyclonedds",
            "httpx2",
            "jsonschema",
            "mcp",
            "numpy",
            "openai",
            "pandas",
        }
        | {"polars", "prometheus_client", "starlette", "uvicorn"}
    )

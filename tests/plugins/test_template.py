"""The template plugin as a stranger installs it: a wheel in a virtual environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

TEMPLATE = Path(__file__).parents[2] / "plugins" / "enginehost-template"

CALL = """
import asyncio, json, sys
from enginehost import Host

async def main():
    async with Host(sys.argv[1], None) as host:
        alias, = (alias for alias in host.registry.aliases() if alias.name == "Text")
        record, = host.catalog.records.values()
        print(json.dumps({
            "answer": await host.call("invitation", {"guest": "Ada", "day": "2026-12-01", "seats": 3}),
            "plugin": [alias.distribution, alias.version],
            "kind": record.kind,
            "problems": [str(problem) for problem in host.problems()],
        }))

asyncio.run(main())
"""


def run(*command: Any, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the built wheel; the host and its libraries come from ours."""
    folder = tmp_path_factory.mktemp("template")
    source = folder / "source"
    shutil.copytree(TEMPLATE, source, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist", cwd=source)
    (wheel,) = (folder / "dist").glob("enginehost_template-*-py3-none-any.whl")
    environment = folder / "env"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    ours = sysconfig.get_path("purelib")
    # addsitedir, since a path in a .pth file does not bring the .pth files beside it (editable installs)
    Path(site, "neighbour.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install"]
    run(*pip, "--no-deps", "--no-index", wheel)
    return environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    shutil.copytree(TEMPLATE / "examples", made)
    return made


def test_its_engine_is_called_by_alias(environment: Path, folder: Path) -> None:
    said = json.loads(run(environment / "bin" / "python", "-c", CALL, folder, cwd=folder.parent))
    assert said == {
        "answer": "Dear Ada, please come on 2026-12-01. There are 3 seats for you.",
        "plugin": ["enginehost-template", "0.1.0"],
        "kind": "Text",
        "problems": [],
    }


def test_its_hook_observes_calls(environment: Path, folder: Path) -> None:
    code = (
        "import os; os.environ['ENGINEHOST_SLOW_CALL_SECONDS'] = '0'\n"
        "import logging; logging.basicConfig()\n" + CALL
    )
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", code, str(folder)],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "invitation took 0.0 s for local" in done.stderr


def test_its_readme_names_every_key(environment: Path) -> None:
    code = (
        "from enginehost_template.text import TextConfig\n"
        "print(*(name.upper() for name in TextConfig.model_fields))"
    )
    keys = run(environment / "bin" / "python", "-c", code).split()
    readme = (TEMPLATE / "README.md").read_text()
    assert keys
    assert [key for key in keys if f"`{key}`" not in readme] == []

"""The template plugin as a stranger installs it: a wheel in a virtual environment of its own."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "plugins" / "enginehost-template"

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


def build(source: Path, folder: Path, *parts: str) -> Path:
    """The wheel of a copy of these ``parts`` of ``source``: nothing else of a checkout gets in."""
    for part in parts:
        if (source / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(source / part, folder / "source" / part, ignore=ignored)
        else:
            shutil.copy(source / part, folder / "source")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=folder / "source")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin, built."""
    return build(TEMPLATE, tmp_path_factory.mktemp("wheel"), "src", "pyproject.toml", "README.md")


def beside_ours(environment: Path, wheel: Path) -> None:
    """Install the wheel alone; the host and its libraries come from the environment that runs the tests."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    ours = sysconfig.get_path("purelib")
    # addsitedir, since a path in a .pth file does not bring the .pth files beside it (editable installs)
    Path(site, "neighbour.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install"]
    run(*pip, "--no-deps", "--no-index", wheel)


def with_all_it_declares(environment: Path, wheel: Path) -> None:
    """Install the wheel, the host's wheel, and from the registry whatever the two ask for."""
    host = build(ROOT, environment.parent, "host", "engines", "pyproject.toml", "README.md", "LICENSE")
    run(sys.executable, "-m", "venv", environment)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "install", "--find-links", host.parent, wheel)
    run(*pip, "check")


@pytest.fixture(
    scope="module",
    params=[beside_ours, pytest.param(with_all_it_declares, marks=pytest.mark.interop)],
    ids=lambda install: install.__name__.replace("_", " "),
)
def environment(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A fresh environment with the wheel."""
    made = tmp_path_factory.mktemp("template") / "env"
    request.param(made, wheel)
    return made


def imported(wheel: Path) -> Iterator[str]:
    """The packages whose modules the wheel's own import, wherever the import stands."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py")]
        own = {name.partition("/")[0] for name in names}
        for name in names:
            for node in ast.walk(ast.parse(archive.read(name))):
                if isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                else:
                    of = isinstance(node, ast.ImportFrom) and node.level == 0
                    modules = [node.module or ""] if of else []
                for package in {module.partition(".")[0] for module in modules}:
                    if package not in own and package not in sys.stdlib_module_names:
                        yield package


def test_it_declares_what_it_imports_in_the_versions_it_is_tested_with(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata, unknown = parse_email(archive.read(name))
    assert not unknown
    requirements = [Requirement(text) for text in metadata.get("requires_dist", ())]
    declared = {canonicalize_name(one.name): one.specifier for one in requirements if one.marker is None}
    distributions = packages_distributions()
    # an editable install, as the host's may be, does not say which packages it has
    used = {canonicalize_name(distributions.get(package, [package])[0]) for package in imported(wheel)}
    assert used == set(declared)
    assert [name for name in used if not declared[name].contains(version(name), prereleases=True)] == []


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

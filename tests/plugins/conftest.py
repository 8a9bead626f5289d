"""Distributions made on the spot: metadata and modules in a folder on ``sys.path``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import invalidate_caches
from importlib.metadata import distributions
from pathlib import Path
from textwrap import dedent

import pytest

from enginehost.plugins import PluginRegistry

ENGINE = """
    from enginehost.engine import AbstractFunctionEngine

    class Engine(AbstractFunctionEngine):
        def execute(self, parameters):
            return parameters
"""


class Site:
    """A folder that plays ``site-packages``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def add(
        self,
        name: str,
        entry_points: str = "",
        modules: Mapping[str, str] | None = None,
        version: str = "1.0",
    ) -> None:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(dedent(entry_points))
        for module, source in (modules or {}).items():
            (self.folder / f"{module}.py").write_text(dedent(source))
            self.modules.add(module)
        invalidate_caches()

    def add_engine(self, name: str, alias: str, module: str, source: str = ENGINE) -> None:
        self.add(name, f"[enginehost.engines]\n{alias} = {module}:Engine\n", {module: source})

    def add_hooks(self, name: str, module: str, source: str) -> None:
        header = "from enginehost.hooks import hookimpl\n"
        self.add(name, f"[enginehost]\n{module} = {module}\n", {module: header + dedent(source)})

    def registry(self) -> PluginRegistry:
        return PluginRegistry(distributions(path=[str(self.folder)]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = Site(folder)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)

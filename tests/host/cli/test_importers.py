"""Importers of plugins are commands of ``enginehost import``; a broken one harms no other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from enginehost.cli import importers
from enginehost.entrypoints import IMPORTERS, Alias
from enginehost.errors import ConfigError
from enginehost.importing import Imported, ImportedFile, key_line


def good(source: str, loud: Annotated[bool, typer.Option("--loud", help="Shout.")] = False) -> Imported:
    """Import nothing in particular."""
    name = source.upper() if loud else source
    text = "\n".join([key_line("ENGINE_CLASS", "REST"), key_line("FUNCTION_NAME", name), ""])
    return Imported("a source", "made", [ImportedFile("one.smss", text, name, "it")])


def bad(source: str) -> int:
    return 5


class Registry:
    """Three plugins, one of which does not load."""

    def aliases(self, *groups: str) -> list[Alias]:
        return [Alias(name, f"m:{name}", IMPORTERS, "d", "1") for name in ("bad", "good", "gone", "odd")]

    def load(self, alias: Alias) -> Any:
        if alias.name == "gone":
            raise ConfigError("the plugin d does not load", reason="plugin-broken")
        return {"good": good, "bad": bad, "odd": 7}[alias.name]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> typer.Typer:
    monkeypatch.setattr(importers, "PluginRegistry", Registry)
    monkeypatch.chdir(tmp_path)
    made = typer.Typer()
    importers.add_importers(made)
    return made


def test_an_importer_has_its_own_options_and_the_common_ones(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["good", "abc", "--loud", "--to", "there"])
    assert done.exit_code == 0, done.output
    assert "there: 1 function (1 created)" in done.output
    assert "FUNCTION_NAME = ABC" in Path("there/one.smss").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [(["gone"], "does not load"), (["bad", "x"], "int, not Imported"), (["odd"], "no function")],
)
def test_a_broken_importer_says_so_and_the_others_work(app: typer.Typer, words: list[str], told: str) -> None:
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError)
    assert told in done.exception.message
    assert CliRunner().invoke(app, ["good", "abc"]).exit_code == 0

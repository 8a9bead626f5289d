from __future__ import annotations

import sys
from pathlib import Path

import pytest

from enginehost.config import config_keys
from enginehost.plugins import PluginRegistry

from .conftest import Cli


@pytest.mark.parametrize("kind", ["python", "reactor", "LocalPython"])
def test_a_new_function_validates_and_runs(cli: Cli, tmp_path: Path, kind: str) -> None:
    made = cli("new", kind, "say-hello", "--folder", "fresh")
    assert made.code == 0
    checked = cli("validate", "fresh", "--strict")
    assert checked.out == "1 file, 0 errors, 0 warnings\n"
    proposed = made.out.splitlines()[-1].split("enginehost ")[1].split()
    assert cli(*proposed, "times=2").json == "Hello, Hello, Ada!"


def test_a_new_rest_function_validates(cli: Cli) -> None:
    assert cli("new", "rest", "remote", "--json").json == {"files": ["smss/remote.smss"]}
    assert cli("validate", "smss/remote.smss", "--strict").code == 0


@pytest.mark.parametrize("name", ["json", "class", "a-b", "x" * 64])
def test_names_that_mean_something_to_python_work_too(cli: Cli, name: str) -> None:
    assert cli("new", "python", name, "--folder", "fresh").code == 0
    (function,) = cli("list", "fresh", "--json").json
    assert cli("call", function["name"], "name=Bo", "--folder", "fresh").json == "Hello, Bo!"


@pytest.mark.parametrize("name", ["", "1", "../up", "a b", "x" * 65, "é", "a\n"])
def test_other_names_are_refused(cli: Cli, tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert cli("new", "python", name).code == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_ever_overwritten(cli: Cli, folder: Path) -> None:
    (folder / "hello.py").write_text("mine")
    done = cli("new", "python", "hello")
    assert done.code == 2
    assert "hello.py exists already" in done.err
    assert (folder / "hello.py").read_text() == "mine"
    assert not (folder / "hello.smss").exists()


def test_an_unknown_kind_says_which_there_are(cli: Cli) -> None:
    done = cli("new", "pyhton", "hello")
    assert done.code == 2
    assert "LocalPython" in done.err or "python, rest, reactor" in done.err


def test_a_kind_without_template_is_written_from_its_config_model(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    info = site / "stamps-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stamps\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[enginehost.engines]\nStamp = stamps_plugin:Stamp\n")
    (site / "stamps_plugin.py").write_text(
        "from pydantic import Field, SecretStr\n"
        "from enginehost.config import EngineConfig\n"
        "from enginehost.engine import AbstractFunctionEngine\n"
        "class Config(EngineConfig):\n"
        "    stamp_text: str = Field(description='What is stamped.', examples=['C:\\\\ok'])\n"
        "    stamp_colour: str = Field(default='red', description='Its colour.')\n"
        "    stamp_key: SecretStr | None = None\n"
        "    stamp_sizes: list[int] = Field(default_factory=lambda: [1, 2])\n"
        "    stamp_edge: str = Field(default_factory=lambda data: data['stamp_colour'])\n"
        "class Stamp(AbstractFunctionEngine):\n"
        "    config_model = Config\n"
        "    def execute(self, parameters):\n"
        "        return self.config.stamp_text\n"
    )
    monkeypatch.syspath_prepend(str(site))
    assert cli("new", "Stamp", "seal").code == 0
    text = (folder / "seal.smss").read_text()
    assert "# What is stamped.\nSTAMP_TEXT = C:\\\\ok\n" in text
    assert "# STAMP_COLOUR = red\n" in text
    assert "# STAMP_KEY = ${env:STAMP_KEY}\n" in text
    assert "# STAMP_SIZES = [1,2]\n# STAMP_EDGE =\n" in text
    assert cli("validate", "smss/seal.smss", "--strict").code == 0
    assert cli("call", "seal").json == "C:\\ok"
    sys.modules.pop("stamps_plugin")


def test_every_key_in_the_rest_template_exists(cli: Cli, folder: Path) -> None:
    cli("new", "rest", "remote")
    model = PluginRegistry().engine_class("REST").config_model
    assert model is not None
    known = {spelling for key in config_keys(model) for spelling in key.accepted}
    lines = (folder / "remote.smss").read_text().splitlines()
    commented = {line[2:].split(" = ")[0] for line in lines if line.startswith("# ") and " = " in line}
    assert commented <= known


def test_the_file_of_a_python_word_is_named_as_its_function(cli: Cli) -> None:
    made = cli("new", "python", "class", "--json")
    assert made.json["files"] == ["smss/class_.smss", "smss/class_.py"]


def test_a_kind_that_declares_parameters_is_tried_with_them(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "balls-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: balls\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[enginehost.engines]\nBall = balls_plugin:Ball\n")
    (tmp_path / "site" / "balls_plugin.py").write_text(
        "from enginehost.engine import AbstractFunctionEngine\n"
        "class Ball(AbstractFunctionEngine):\n"
        "    requires_signature = False\n"
        "    def functions(self):\n"
        "        schema = {'type': 'object', 'properties': {'metres': {'type': 'number'}},\n"
        "                  'required': ['metres']}\n"
        "        return (self.context.function(self.execute, name='throw', parameters=schema),)\n"
        "    def execute(self, parameters, call):\n"
        "        return parameters['metres']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    made = cli("new", "Ball", "throw")
    assert made.out.splitlines()[-1] == "try   enginehost call throw metres=1"
    sys.modules.pop("balls_plugin")


def test_a_kind_whose_file_has_to_be_filled_in_says_with_what(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "texts-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: texts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[enginehost.engines]\nText = texts_plugin:Text\n")
    (tmp_path / "site" / "texts_plugin.py").write_text(
        "from enginehost.engine import AbstractFunctionEngine\n"
        "from enginehost.errors import ConfigError\n"
        "class Text(AbstractFunctionEngine):\n"
        "    def __init__(self, context, config):\n"
        "        raise ConfigError('there is no text', hint='write TEXT')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    made = cli("new", "Text", "letter")
    assert made.code == 0
    assert made.out.splitlines()[1:] == [
        "mend  there is no text",
        "      write TEXT",
        "then  enginehost validate smss/letter.smss",
    ]
    assert "enginehost call" not in (folder / "letter.smss").read_text()
    sys.modules.pop("texts_plugin")


@pytest.mark.parametrize("kind", ["PythonClass", "pythonclass", "package.module:Class"])
def test_no_file_is_written_for_a_class_of_ones_own(cli: Cli, folder: Path, kind: str) -> None:
    done = cli("new", kind, "mine")
    assert done.code == 2
    assert "ENGINE_CLASS = package.module:Class" in done.err
    assert not (folder / "mine.smss").exists()
    assert "PythonClass" not in cli("new", "java", "mine").err


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ("http: 127.0.0.1:9001", "127.0.0.1:9001"),
        ("http: 0.0.0.0:9001", "127.0.0.1:9001"),
        ("http: '[::]:9001'", "[::1]:9001"),
        ("http: 127.0.0.1:0", "127.0.0.1:8484"),
        ("htp: off", "127.0.0.1:8484"),
    ],
)
def test_a_new_rest_function_asks_the_host_of_its_settings(
    cli: Cli, folder: Path, settings: str, address: str
) -> None:
    (folder.parent / "enginehost.yaml").write_text(f"{settings}\n")
    assert cli("new", "rest", "remote").code == 0
    assert f"API_ENDPOINT_URL = http://{address}/" in (folder / "remote.smss").read_text()

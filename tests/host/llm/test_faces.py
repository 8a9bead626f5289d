"""Models on the command line and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginehost.cli import main
from enginehost.plugins import PluginRegistry, Unsupported

NOBODY = "ENGINE_CLASS = Nobody\n"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def test_list_shows_models_apart_from_functions(
    stage: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from enginehost.testing import engine_registry

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(
        "enginehost.host.PluginRegistry", lambda: engine_registry(stage.engine, "ENGINE_CLASS = Puppet")
    )
    stage.write("chat", MODEL="great-7")
    assert run("list", "--models", str(stage.folder)) == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "STATE", "KIND", "MODEL"]
    assert row.split() == ["chat", "ready", "Puppet", "great-7"]
    assert run("list", "--models", "--json", str(stage.folder)) == 0
    (model,) = json.loads(capsys.readouterr().out)
    assert (model["serves"], model["model"], model["functions"]) == ("model", "great-7", [])
    assert run("list", str(stage.folder)) == 0
    assert "no functions" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["OpenAI", "prerna.engine.impl.model.OpenAiEngine"])
def test_a_kind_of_a_plugin_that_is_not_installed_says_which(name: str) -> None:
    found = PluginRegistry(()).resolve_engine_class(name)
    assert isinstance(found, Unsupported)
    assert "enginehost-openai" in found.hint

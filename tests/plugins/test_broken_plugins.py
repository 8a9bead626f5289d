"""A broken plugin never stops a host: the folder is served, and the plugin is listed with its error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import EngineState
from enginehost.testing import running_host

HEADER = "from enginehost.hooks import hookimpl\n"
ENGINE = """
from enginehost.engine import AbstractFunctionEngine

class Engine(AbstractFunctionEngine):
    async def execute(self, parameters):
        return "sound"
"""
SMSS = "ENGINE_CLASS = {kind}\nFUNCTION_NAME = {name}\nFUNCTION_DESCRIPTION = Says something\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    made.mkdir()
    (made / "sound.smss").write_text(SMSS.format(kind="Sound", name="sound"))
    (made / "broken.smss").write_text(SMSS.format(kind="Broken", name="broken"))
    return made


@pytest.mark.parametrize(
    "source",
    [
        "import a_module_that_is_not_there",
        "raise SystemExit(3)",
        "x = 1",
        "Engine = int",
        ENGINE + "    def __init__(self, *_):\n        raise ValueError('constructor')",
        ENGINE + "    def functions(self):\n        raise ValueError('functions')",
        ENGINE + "    async def open(self):\n        raise ValueError('open')",
        ENGINE + "    def __init__(self, *_):\n        raise SystemExit('constructor')",
        ENGINE + "    def functions(self):\n        return None",
        ENGINE + "    def functions(self):\n        return (1, 2)",
    ],
)
async def test_an_engine_class_that_is_broken_hurts_only_its_files(
    site: Any, folder: Path, source: str
) -> None:
    site.add_engine("broken", "Broken", "broken_engines", source)
    site.add_engine("sound", "Sound", "sound_engines", ENGINE)
    async with running_host(folder, registry=site.registry()) as host:
        assert await host.call("sound") == "sound"
        states = {record.kind: record for record in host.catalog.records.values()}
        assert states["Broken"].state is EngineState.FAILED
        assert states["Broken"].reason
        assert any("broken" in problem.path for problem in host.problems())


@pytest.mark.parametrize(
    "source",
    [
        "import a_module_that_is_not_there",
        "raise SystemExit(3)",
        HEADER + "@hookimpl\ndef secret(wrong): ...",
        HEADER + "@hookimpl\ndef no_such_hook(): ...",
        HEADER + "@hookimpl\ndef register_faces(register):\n    raise ValueError('faces')",
        HEADER + "@hookimpl\ndef register_faces(register):\n    register('bad', lambda host: 1 / 0)",
        HEADER + "@hookimpl\ndef register_faces(register):\n    register('bad', lambda host: None)",
        HEADER + "@hookimpl\ndef register_signature_mappers(register):\n    register('openai', None)",
        HEADER + "@hookimpl\ndef register_faces(register):\n    register('bad', lambda host: exit(1))",
    ],
)
async def test_a_pluggy_plugin_that_is_broken_is_listed_and_the_host_serves(
    site: Any, folder: Path, source: str
) -> None:
    site.add("broken", "[enginehost]\nbroken = broken_hooks\n", {"broken_hooks": source})
    site.add_engine("sound", "Sound", "sound_engines", ENGINE)
    async with running_host(folder, registry=site.registry()) as host:
        assert await host.call("sound") == "sound"
        listed = [problem for problem in host.problems() if problem.code == "plugin"]
    assert len(listed) == 1
    assert "broken" in listed[0].message


async def test_an_observer_that_raises_hurts_no_call(site: Any, folder: Path) -> None:
    source = HEADER + "@hookimpl\ndef observe_call(record):\n    raise SystemExit\n"
    site.add("broken", "[enginehost]\nbroken = broken_observer\n", {"broken_observer": source})
    site.add_engine("sound", "Sound", "sound_engines", ENGINE)
    async with running_host(folder, registry=site.registry()) as host:
        for _ in range(3):
            assert await host.call("sound") == "sound"


async def test_a_secret_store_that_fails_keeps_only_its_engines_closed(site: Any, folder: Path) -> None:
    source = HEADER + (
        "@hookimpl\ndef engine_secrets(engine_id):\n"
        "    if engine_id == 'broken':\n        raise ValueError('hunter2')\n"
    )
    site.add("acme-vault", "[enginehost]\nvault = acme_vault\n", {"acme_vault": source})
    site.add_engine("sound", "Sound", "sound_engines", ENGINE)
    site.add_engine("other", "Broken", "other_engines", ENGINE)
    async with running_host(folder, registry=site.registry()) as host:
        assert await host.call("sound") == "sound"
        record = host.catalog.records["broken"]
        assert record.state is EngineState.FAILED
        assert "acme-vault" in record.reason
        assert not [problem for problem in host.problems() if "hunter2" in str(problem)]

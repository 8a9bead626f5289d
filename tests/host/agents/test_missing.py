"""What an agent's file names that there is not is seen before its first turn."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from enginehost.errors import ExecutionFailed
from enginehost.host import Host
from enginehost.settings import HostSettings

ACTOR = "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n"
HELPER = "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
NAMES_NOTHING = HELPER + "MODEL = nomodel\nTOOLS = nothing, add\nAGENTS = nobody, helper\n"
ADD = (
    "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = add\n"
    "FUNCTION_DESCRIPTION = Adds.\nAPPROVAL = always\n"
)
SCRIPT = "answers:\n  - reply: [{call: {tool: add, args: {a: 1, b: 2}}}]\n"
FAULTS = ("MODEL: no model", "TOOLS: there is no function nothing", "AGENTS: there is no agent nobody")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    made.mkdir()
    for name, text in {
        "actor.smss": ACTOR,
        "actor.yaml": SCRIPT,
        "add.smss": ADD,
        "tools.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
        "helper.smss": HELPER + "MODEL = actor\nTOOLS = add\nINSTRUCTIONS = Help.\n",
    }.items():
        (made / name).write_text(text)
    return made


def cli(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGINEHOST_")}
    environment = kept | {
        "XDG_STATE_HOME": str(folder.parent / "state"),
        "ENGINEHOST_HTTP__ADDRESS": "127.0.0.1:0",
    }
    return subprocess.run(
        [sys.executable, "-m", "enginehost", *words],
        cwd=folder.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def host(folder: Path) -> Host:
    return Host(folder, None, settings=HostSettings(state_dir=folder.parent / "state"), watch=False)


def test_an_agent_that_names_what_there_is_validates_also_when_it_is_loaded(folder: Path) -> None:
    done = cli(folder, "validate", "--load", "--strict")
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(folder.parent.rglob("sessions.db"))


def test_validate_and_doctor_warn_of_names_that_mean_nothing(folder: Path) -> None:
    (folder / "helper.smss").write_text(NAMES_NOTHING)
    done = cli(folder, "validate")
    assert done.returncode == 0
    assert done.stdout.count("[names-nothing]") == 4
    assert all(text in done.stdout for text in (*FAULTS, "AGENTS: an agent does not ask itself"))
    assert "names-nothing" not in cli(folder, "validate", "smss/helper.smss").stdout
    told = cli(folder, "doctor").stdout
    assert all(text in told for text in FAULTS)


async def test_what_is_missing_stands_beside_ready_until_it_is_there(folder: Path) -> None:
    (folder / "helper.smss").write_text(NAMES_NOTHING)
    async with host(folder) as running:
        (record,) = [one for one in running.catalog.records.values() if one.title == "helper.smss"]
        assert str(record.state) == "ready"
        assert all(text in record.shown_reason for text in FAULTS)
    (folder / "helper.smss").write_text(HELPER + "MODEL = actor\nTOOLS = add\n")
    async with host(folder) as running:
        (record,) = [one for one in running.catalog.records.values() if one.title == "helper.smss"]
        assert record.shown_reason == ""


async def test_a_call_that_needs_a_person_says_how_to_decide(folder: Path) -> None:
    async with host(folder) as running, asyncio.timeout(40):
        with pytest.raises(ExecutionFailed) as raised:
            await running.call("helper", {"message": "x", "conversation_id": "mine"})
    assert "enginehost chat helper --session mine" in raised.value.detail["hint"]


async def test_an_agent_that_is_a_class_in_a_process_of_its_own_is_looked_at_too(folder: Path) -> None:
    (folder / "shop.py").write_text(
        'from enginehost import Agent\n\n\nclass Shop(Agent):\n    """Sells."""\n\n    model = \'nomodel\'\n'
    )
    (folder / "shop.smss").write_text("ENGINE_CLASS = shop:Shop\n")
    (folder / "helper.smss").write_text(HELPER + "MODEL = actor\nAGENTS = shop\nINSTRUCTIONS = Help.\n")
    assert "names-nothing" not in cli(folder, "validate").stdout
    async with host(folder) as running:
        reasons = {one.title: one.shown_reason for one in running.catalog.records.values()}
    assert reasons["shop.smss"].startswith("MODEL: no model")
    assert reasons["helper.smss"] == ""

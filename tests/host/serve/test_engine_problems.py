"""``GET /v1/engines``: every engine with what is wrong with it, for those who may know."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost import Host, HostSettings
from enginehost.serve import HttpServer

TOKEN = "correct-horse-battery-staple"
KNOWN = {"authorization": f"Bearer {TOKEN}"}
FILE = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.py").write_text("def f(): pass\n")
    (tmp_path / "a.smss").write_text(FILE)
    (tmp_path / "b.smss").write_text(FILE + "FUNCTION_TAGS = hidden\nTIMOUT_SECONDS = 3\n")
    (tmp_path / "model.smss").write_text("ENGINE_TYPE = prerna.engine.impl.model.OpenAiEngine\n")
    (tmp_path / "ocr.smss").write_text("ENGINE_TYPE = prerna.engine.impl.function.OCRFunctionEngine\n")
    (tmp_path / "link.smss").symlink_to("nowhere")
    return tmp_path


@asynccontextmanager
async def asking(folder: Path, **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    async with Host(folder, None, settings=HostSettings(**settings), watch=False) as host:
        server = HttpServer(host, "127.0.0.1:0")
        await server.start()
        try:
            async with httpx2.AsyncClient(base_url=server.url) as client:
                yield client
        finally:
            await server.stop()


async def test_each_engine_has_its_state_its_reason_and_what_is_wrong_with_it(folder: Path) -> None:
    async with asking(folder) as client:
        answer = (await client.get("/v1/engines")).json()
        lost = await client.post("/api/function-b/execute", json={})
    assert (lost.status_code, lost.json()["state"]) == (503, "conflict")
    assert "a.smss declares it too" in lost.json()["detail"]
    shown = {engine["id"]: engine for engine in answer["engines"]}
    assert {name: engine["state"] for name, engine in shown.items()} == {
        "a": "ready",
        "b": "conflict",
        "model": "unsupported",
        "ocr": "unsupported",
    }
    assert [one["code"] for one in shown["b"]["problems"]] == ["unknown-key", "name-conflict"]
    assert shown["b"]["problems"][0] == {
        "severity": "warning",
        "code": "unknown-key",
        "where": "b.smss:6:1",
        "message": "the key TIMOUT_SECONDS has no effect",
        "hint": "did you mean TIMEOUT_SECONDS?",
    }
    assert [one["severity"] for name in ("model", "ocr") for one in shown[name]["problems"]] == [
        "warning",
        "error",
    ]
    assert shown["a"]["problems"] == []
    assert [(one["code"], one["where"]) for one in answer["problems"]] == [("unusable-file", "link.smss")]
    assert str(folder) not in json.dumps(answer)


async def test_who_may_not_view_a_function_hears_nothing_of_an_engine_that_lost_its_name(
    folder: Path,
) -> None:
    policy = {"rules": [{"deny": "view", "tags": ["hidden"]}, {"allow": "call", "callers": "anyone"}]}
    tokens = [{"name": "ci", "token": TOKEN}]
    async with asking(folder, policy=policy, tokens=tokens) as client:
        known = (await client.get("/v1/engines", headers=KNOWN)).json()
        stranger = (await client.get("/v1/engines")).json()
    # nobody knows which functions, with which tags, a class offers that is not there
    assert [engine["id"] for engine in known["engines"]] == ["a", "model"]
    assert known["problems"]
    assert [engine["problems"] for engine in stranger["engines"]] == [None] * 2
    assert stranger["problems"] is None


LOCAL_PYTHON = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_DESCRIPTION = d\n"
TAGGED = "FUNCTION_TAGS = hidden\n"
FAILING = {
    "no_script": "ENGINE_CLASS = LocalPython\nFUNCTION_NAME = x\nPYTHON_SCRIPT_PATH = no.py\n",
    "no_script_hidden": f"{LOCAL_PYTHON}FUNCTION_NAME = x\nPYTHON_SCRIPT_PATH = no.py\n{TAGGED}",
    "no_name": LOCAL_PYTHON,
    "no_name_hidden": LOCAL_PYTHON + TAGGED,
    "secret_name": f"{LOCAL_PYTHON}FUNCTION_NAME = ${{secret:none}}\n{TAGGED}",
    "no_reactor": f"ENGINE_CLASS = Reactor\nREACTOR_CLASS_NAME = no.such.Thing\n{TAGGED}",
    "rest_without_name": f"ENGINE_CLASS = REST\nURL = http://localhost:1/\n{TAGGED}",
    "no_such_class": f"ENGINE_CLASS = no.such:Thing\n{TAGGED}",
    "no_class": TAGGED,
    "no_tags_file": f"{LOCAL_PYTHON}FUNCTION_NAME = y\nFUNCTION_TAGS = ${{file:none}}\n",
    "tags_no_list": f'{LOCAL_PYTHON}FUNCTION_NAME = z\nFUNCTION_TAGS = {{"hidden": 1}}\n',
    "tags_quoted": f'{LOCAL_PYTHON}FUNCTION_NAME = q\nFUNCTION_TAGS = "hidden"\n',
    "database": "ENGINE_CLASS = prerna.engine.impl.rdbms.RDBMSNativeEngine\n",
    "archive": "A = 1\n" * 800_000,
}
"""Files that cannot serve."""
UNTAGGED = {"no_script", "no_name", "database"}
NAMED = {"no_script", "no_script_hidden", "no_tags_file", "tags_no_list", "tags_quoted"}


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ({"deny": "view", "subjects": ["ci"], "tags": ["hidden"]}, UNTAGGED),
        ({"deny": "view", "subjects": ["ci"], "functions": ["of_nobody"]}, NAMED),
        ({"deny": "view", "subjects": ["somebody"], "tags": ["hidden"]}, set(FAILING)),
    ],
)
async def test_what_cannot_be_judged_is_shown_to_those_only_who_may_view_everything(
    tmp_path: Path, rule: dict[str, Any], shown: set[str]
) -> None:
    (tmp_path / "f.py").write_text("def x(): pass\n")
    for name, text in FAILING.items():
        (tmp_path / f"{name}.smss").write_text(text)
    tokens = [{"name": "ci", "token": TOKEN}]
    async with asking(tmp_path, policy={"default": "call", "rules": [rule]}, tokens=tokens) as client:
        engines = (await client.get("/v1/engines", headers=KNOWN)).json()["engines"]
    assert {engine["id"] for engine in engines} == shown

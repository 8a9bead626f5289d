"""``GET /v1/engines``: every engine with what is wrong with it, for those who may know."""

from __future__ import annotations

import asyncio
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
async def asking(folder: Path, *, watch: bool = False, **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    async with Host(folder, None, settings=HostSettings(**settings), watch=watch) as host:
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
    assert known["problems"] == []  # nor what a link to nowhere would declare
    assert [engine["problems"] for engine in stranger["engines"]] == [None] * 2
    assert stranger["problems"] is None


HIDING = {"default": "call", "rules": [{"deny": "view", "subjects": ["ci"], "tags": ["secret"]}]}
OTHERS = {"default": "call", "rules": [{"deny": "view", "subjects": ["other"], "tags": ["secret"]}]}


@pytest.mark.parametrize("policy", [HIDING, OTHERS])
async def test_what_an_engine_lost_to_is_named_to_those_only_who_may_view_it(
    tmp_path: Path, policy: dict[str, Any]
) -> None:
    (tmp_path / "f.py").write_text("def f(): pass\ndef g(): pass\ndef h(): pass\n")
    (tmp_path / "aaa_project.smss").write_text(f"{FILE}ENGINE = same\nFUNCTION_TAGS = secret\n")
    (tmp_path / "bbb.smss").write_text(FILE)
    (tmp_path / "ccc.smss").write_text(FILE.replace("NAME = f", "NAME = g") + "ENGINE = same\n")
    (tmp_path / "ddd.smss").write_text(FILE.replace("NAME = f", "NAME = g") + "ENGINE = ddd\n")
    tokens = [{"name": "ci", "token": TOKEN}]
    async with asking(tmp_path, policy=policy, tokens=tokens) as client:
        listed = (await client.get("/v1/engines", headers=KNOWN)).text
        lost = await client.get("/api/function-bbb/definition", headers=KNOWN)
        seen = await client.get("/api/function-ddd/definition", headers=KNOWN)
    shown = {engine["id"]: engine for engine in json.loads(listed)["engines"]}
    assert (lost.status_code, lost.json()["state"]) == (503, "conflict")
    who = "another file" if policy is HIDING else "aaa_project.smss"
    assert f"{who} declares it too, and keeps it" in lost.json()["detail"]
    assert f"{who} declares it too, and keeps it" in shown["bbb"]["reason"]
    assert f"declared by {who}, which keeps" in shown["bbb"]["problems"][0]["message"]
    assert f"that of {who}, which keeps it" in shown["same~ccc"]["problems"][0]["message"]
    assert ("aaa_project" in listed + lost.text) is (policy is OTHERS)
    assert "ccc.smss declares it too" in seen.json()["detail"]
    assert "ccc.smss declares it too" in shown["ddd"]["reason"]


NEW_VERSIONS = {
    "another_tag": FILE.replace("NAME = f", "NAME = topsecretname") + "FUNCTION_TAGS = secret\n",
    "unreadable_tag": FILE.replace("NAME = f", "NAME = topsecretname") + "FUNCTION_TAGS = ${secret:none}\n",
}


@pytest.mark.parametrize("policy", [HIDING, OTHERS])
@pytest.mark.parametrize("new", NEW_VERSIONS.values(), ids=NEW_VERSIONS.keys())
async def test_why_an_engine_is_stale_is_told_to_those_only_who_may_view_what_its_file_declares_now(
    tmp_path: Path, policy: dict[str, Any], new: str
) -> None:
    (tmp_path / "f.py").write_text("def f(): pass\n")
    (tmp_path / "area.smss").write_text(FILE)
    tokens = [{"name": "ci", "token": TOKEN}]
    async with asking(tmp_path, watch=True, policy=policy, tokens=tokens) as client:
        (tmp_path / "area.smss").write_text(new)
        async with asyncio.timeout(20):
            described = await client.get("/v1/functions/f", headers=KNOWN)
            while described.json()["state"] != "stale":
                await asyncio.sleep(0.02)
                described = await client.get("/v1/functions/f", headers=KNOWN)
        listed = await client.get("/v1/engines", headers=KNOWN)
    (engine,) = listed.json()["engines"]
    assert engine["state"] == described.json()["engine"]["state"] == "stale"
    assert engine["reason"] == described.json()["engine"]["reason"]
    if policy is HIDING:
        assert engine["reason"] == "its newest version cannot be loaded"
        assert engine["problems"] is None
        assert "topsecretname" not in listed.text + described.text
        assert "secret" not in listed.text + described.text
    else:
        assert engine["problems"][0]["message"] in engine["reason"]
        assert "topsecretname" in engine["reason"] or "FUNCTION_TAGS" in engine["reason"]


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

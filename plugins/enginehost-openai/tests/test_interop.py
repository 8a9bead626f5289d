"""Other people's mock providers: the wire by npm's aimock, faults and a verdict on us by PyPI's llmock."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost.engine import FunctionSignature
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Type, user

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

AIMOCK, LLMOCK = "@copilotkit/aimock@1.43.0", "llmock==0.2.2"
FIXTURES = {
    "fixtures": [
        {
            "match": {"userMessage": "weather", "hasToolResult": False},
            "response": {
                "toolCalls": [
                    {"name": "weather_today", "arguments": '{"town":"Bath"}'},
                    {"name": "weather_today", "arguments": '{"town":"York"}'},
                ]
            },
        },
        {"match": {"userMessage": "weather"}, "response": {"content": "It is warm in both towns today"}},
        {"match": {"userMessage": "hello"}, "response": {"content": "Good morning to you, dear reader"}},
    ]
}
PARAMETERS = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
TOOL = FunctionSignature("weather_today", "The weather of a town", PARAMETERS)
INSTALLED = Path(__file__).parents[3] / ".peers" / "aimock"
"""Where `.ci/run` has installed it."""
NO_SKIP = os.environ.get("ENGINEHOST_NO_SKIP") == "1"


@contextmanager
def serving(folder: Path, *command: str | Path) -> Generator[str, None, None]:
    """A server of somebody else's: what it says it listens on."""
    said = folder / "said.txt"
    with said.open("w") as out:
        server = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=out, stderr=out)
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", said.read_text())):
            assert server.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.05)
        yield found[0]
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    """aimock with :data:`FIXTURES`."""
    folder, modules = tmp_path_factory.mktemp("aimock"), INSTALLED / "node_modules"
    if not modules.exists():
        npm = shutil.which("npm")
        if npm is None and not NO_SKIP:
            pytest.skip("npm is not installed")
        command = [str(npm), "install", "--silent", "--prefix", str(folder), AIMOCK]
        subprocess.run(command, check=True, timeout=120)
        modules = folder / "node_modules"
    (folder / "fixtures.json").write_text(json.dumps(FIXTURES))
    program = modules / ".bin" / "llmock"  # aimock's server of one port
    with serving(folder, program, "-p", "0", "-c", "4", "-f", "fixtures.json", "--strict") as url:
        yield url


@pytest.fixture(scope="module")
def llmock(tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    """llmock, in an environment of its own: it brings libraries that clash with nobody there."""
    folder = tmp_path_factory.mktemp("llmock")
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True, timeout=120)
    python = folder / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", LLMOCK]
    subprocess.run(pip, check=True, timeout=240)
    code = (
        "import time\nfrom llmock.testing import LLMockServer\n"
        "with LLMockServer() as server:\n    print(server.url, flush=True)\n    time.sleep(3600)"
    )
    with serving(folder, python, "-c", code) as url:
        yield url


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_aimock_reads_our_requests_and_we_its_streams(api: str, aimock: str, hosting: Any) -> None:
    async with hosting(BASE_URL=f"{aimock}/v1", API=api, LIST_MODELS="false", API_KEY="sk-x") as host:
        llm = host.llm()
        pieces = [one async for one in llm.send("hello there", stream=True)]
        assert "".join(one.content for one in pieces) == "Good morning to you, dear reader"
        assert len(pieces) > 5
        rows: list[Message] = [user("How is the weather in Bath and York?")]
        answer = await llm.send(rows, tools=[TOOL])
        assert [(one.query or {})["tool"] for one in answer.tool_calls] == [TOOL.name, TOOL.name]
        assert [(one.query or {})["args"]["town"] for one in answer.tool_calls] == ["Bath", "York"]
        rows += answer
        for call in answer.tool_calls:
            query = {"tool": TOOL.name, "id": call.call_id}
            rows.append(Message(Role.TOOL, Type.TOOL_RESULT, '"warm"', query))
        assert (await llm.send(rows, tools=[TOOL])).text == "It is warm in both towns today"


FAULTS: list[tuple[dict[str, Any], bool]] = [
    ({"type": "fail", "status": 429, "retry_after": 0.2}, True),
    ({"type": "fail", "status": 500}, True),
    ({"type": "fail", "status": 503}, True),
    ({"type": "fail", "status": 400}, False),
    ({"type": "fail", "status": 401}, False),
    ({"type": "stream_fault", "kind": "disconnect", "after_chunks": 2}, False),
    (
        {"type": "stream_fault", "kind": "truncate", "after_chunks": 1},
        True,
    ),  # it counts only a repetition as seen
    ({"type": "stream_fault", "kind": "malformed", "after_chunks": 2}, False),
]


@pytest.mark.parametrize(("fault", "mended"), FAULTS, ids=lambda value: str(value)[:50])
async def test_llmock_finds_no_fault_with_how_we_take_its_faults(
    fault: dict[str, Any], mended: bool, llmock: str, hosting: Any
) -> None:
    keys = {"BASE_URL": f"{llmock}/v1", "LIST_MODELS": "false", "API_KEY": "sk-x", "RETRY_SECONDS": 0.1}
    async with httpx2.AsyncClient(base_url=llmock) as admin, hosting(**keys, MODEL="gpt-4o") as host:
        (await admin.post("/_llmock/reset")).raise_for_status()
        (await admin.post("/_llmock/scenario", json={"behaviors": [fault]})).raise_for_status()
        if mended:
            assert (await host.llm().send("hello")).text
        else:
            with pytest.raises(EngineHostError):
                await host.llm().send("hello")
        verdict = (await admin.get("/_llmock/verdict")).raise_for_status().json()
        assert not [one for one in verdict["findings"] if one["severity"] == "error"], verdict
        assert (await host.llm().send("hello")).text

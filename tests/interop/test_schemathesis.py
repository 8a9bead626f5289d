"""Schemathesis reads the OpenAPI document of a running host, and tries what it says, with bad requests too.

It has an environment of its own (``make .peers/schemathesis/installed``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginehost.client import Client

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".peers" / "schemathesis" / "bin" / "st"
TOKEN = "ann-" + "s" * 40
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
]
HOOKS = '''
"""Sends JSON lines, and names the agent and the session that there are in half of the cases."""

import zlib

import schemathesis


def _sometimes(value):
    return zlib.crc32(repr(value).encode()) % 2


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    text = value if isinstance(value, str) else repr(value)
    return {"data": text.encode("utf-8", "replace")}


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("agent"), str) and _sometimes(body):
        body["agent"] = "helper"
    return body


@schemathesis.hook
def map_path_parameters(context, parameters):
    there = {"id": "known", "name": "helper", "engine_id": "add"}
    if parameters and _sometimes(parameters):
        return {name: there.get(name, value) for name, value in parameters.items()}
    return parameters
'''
FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "actor.yaml": 'answers:\n  - say: "You said: $text"\n',
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = none\nINSTRUCTIONS = Help.\n",
    "tools.py": "def add(a, b):\n    return a + b\n\n\ndef count(to):\n    yield from range(to % 100)\n\n\n"
    "def look(where, more):\n    return {'where': where, 'more': more}\n",
    "add.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = add\n"
    "FUNCTION_DESCRIPTION = Adds.\n"
    'FUNCTION_PARAMETERS = [{"name": "a", "type": "integer"}, {"name": "b", "type": "integer"}]\n'
    'FUNCTION_REQUIRED_PARAMETERS = ["a", "b"]\nFUNCTION_RESULT = {"type": "integer"}\n',
    "count.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = count\n"
    "FUNCTION_DESCRIPTION = Counts.\n"
    'FUNCTION_PARAMETERS = [{"name": "to", "type": "integer"}]\nFUNCTION_REQUIRED_PARAMETERS = ["to"]\n',
    "look.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = look.at/things\n"
    "FUNCTION_DESCRIPTION = Looks.\n"
    'FUNCTION_PARAMETERS = [{"name": "where", "type": "string"}, {"name": "more", "type": "array"}]\n'
    'FUNCTION_REQUIRED_PARAMETERS = ["where", "more"]\n',
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """``enginehost run`` as a process of its own, with a token and an agent."""
    folder = tmp_path / "smss"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    settings = {"tokens": [{"name": "ann", "token": TOKEN}], "state_dir": str(tmp_path / "state")}
    (tmp_path / "enginehost.yaml").write_text(json.dumps(settings))
    run = (sys.executable, "-m", "enginehost", "run", "smss", "--http", "127.0.0.1:0", "--log", "json")
    environ = {**os.environ, "ENGINEHOST_DATABUS": "off"}
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(run, cwd=tmp_path, env=environ, stderr=stderr, text=True)
    try:
        yield _listening(log, process)
    finally:
        process.terminate()
        process.wait(30)
    failed = [line for line in log.read_text().splitlines() if "failed inside the host" in line]
    assert failed == []


def _listening(log: Path, process: subprocess.Popen[str]) -> str:
    import time

    until = time.monotonic() + 30
    while '"event": "ready"' not in log.read_text().replace('"event":"', '"event": "'):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return next(event["http"] for event in events if event["event"] == "listening")


def test_every_answer_is_one_that_the_document_tells_of(url: str, tmp_path: Path) -> None:
    if not PROGRAM.exists():
        pytest.skip("Schemathesis is not installed: make .peers/schemathesis/installed")
    with Client(url, TOKEN) as client:
        client.start("helper", "known").ask("hello")
    (tmp_path / "hooks.py").write_text(HOOKS)
    command = [
        str(PROGRAM), "run", f"{url}/openapi.json?routes=all", "--header", f"Authorization: Bearer {TOKEN}",
        "--checks", ",".join(CHECKS), "--seed", "20261201", "--max-examples", "100",
        "--phases", "examples,coverage,fuzzing,stateful", "--workers", "2", "--request-timeout", "20",
        "--generation-database", "none", "--suppress-health-check", "all", "--no-color",
        "--exclude-path-regex", "/events$",  # these end when their reader leaves
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "SCHEMATHESIS_HOOKS": "hooks"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

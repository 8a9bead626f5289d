"""Runs a page of the documentation as a reader would: block by block, in a folder of its own.

- A block whose first line is a comment with a file name (``# smss/hello.smss``) becomes that file.
- ``sh`` blocks run in bash. ``# exit code N`` in a block says that it fails so.
- ``python`` blocks without a file name run as programs.
- A ``text`` or ``json`` block that follows at once is the output; ``…`` stands for anything.
- ``enginehost run``, ``make run`` and the weather service run until the page ends.

A page that talks to 127.0.0.1:8484 without having started a host gets one on the shipped folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PATIENCE = 20.0
"""Seconds in which a running host has to show what a page says it shows."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"# ([\w./ -]+\.(?:smss|py|yaml|toml))$")
_EXIT_CODE = re.compile(r"# exit code (\d+)")
_BACKGROUND = re.compile(r"(enginehost run|make run|python smss/services/weather_service\.py)\b[^\n]*\n")
_EXPORT = re.compile(r"^export .*$", re.MULTILINE)
_VARIABLE = re.compile(r"(\w+)=([\w-]+)")
_NOT_RUN = {
    "make test": "runs this test",
    "make check": "is run beside the tests",
    "make demo-network": "tests/examples runs it",
}


@dataclass(frozen=True)
class Block:
    """A fenced block. ``output`` is the block that follows at once and shows what it prints."""

    language: str
    text: str
    line: int
    output: str | None = None

    @property
    def file_name(self) -> str | None:
        """The file that the block is the content of."""
        match = _FILE_NAME.match(self.text.partition("\n")[0])
        return match[1] if match else None

    @property
    def runs(self) -> bool:
        """Whether the block is a program or commands."""
        return self.language in ("sh", "python") and self.file_name is None


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, each with its output."""
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(page):
        language, text = match[1], match[2]
        follows = found and not page[end : match.start()].strip()
        end = match.end()
        last = found[-1] if found else None
        is_output = follows and language in ("text", "json")
        if is_output and last and last.runs and last.output is None:
            found[-1] = Block(last.language, last.text, last.line, text)
            continue
        found.append(Block(language, text, page.count("\n", 0, match.start()) + 1))
    return found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def shows(said: str, shown: str) -> bool:
    """Whether the output ``said`` is what the page has ``shown``, blanks aside."""
    pattern = ".*?".join(re.escape(part) for part in squeezed(shown).split("…"))
    return re.fullmatch(pattern, squeezed(said), re.DOTALL) is not None


class Models(BaseHTTPRequestHandler):
    """Stand-ins of four vendors' models, as far as the pages talk to them: one tool call, then an answer."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self._answer(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        arguments = {"a": 2, "b": 40}
        if self.path.endswith("/chat/completions"):
            last = body["messages"][-1]
            if last["role"] == "tool":
                message = {"role": "assistant", "content": f"It is {last['content']}."}
            else:
                function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(arguments)}
                calls = [{"id": "c1", "type": "function", "function": function}]
                message = {"role": "assistant", "content": None, "tool_calls": calls}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        if self.path.endswith("/responses"):
            name = body["tools"][0]["name"]
            call = {
                "type": "function_call",
                "call_id": "c1",
                "name": name,
                "arguments": json.dumps(arguments),
            }
            return {"id": "x", "object": "response", "created_at": 1, "model": "m", "output": [call]}
        if self.path.endswith("/messages"):
            use = {"type": "tool_use", "id": "c1", "name": body["tools"][0]["name"], "input": arguments}
            usage = {"input_tokens": 1, "output_tokens": 1}
            return {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [use],
                    "stop_reason": "tool_use", "stop_sequence": None, "usage": usage}  # fmt: skip
        if self.path.endswith("/converse"):
            use = {"toolUseId": "c1", "name": body["toolConfig"]["tools"][0]["toolSpec"]["name"],
                   "input": arguments}  # fmt: skip
            message = {"role": "assistant", "content": [{"toolUse": use}]}
            return {"output": {"message": message}, "stopReason": "tool_use"}
        call = {"name": body["tools"][0]["functionDeclarations"][0]["name"], "args": arguments}
        return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}}]}

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


@dataclass
class Site:
    """A folder in which one page is followed."""

    folder: Path
    domain: int
    bus: bool
    port: int = field(default_factory=free_port)
    weather_port: int = field(default_factory=free_port)
    model_port: int = 0
    host: subprocess.Popen[str] | None = None
    others: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site_packages = self.folder / "site-packages"
        self.log = self.folder / "log.txt"
        shutil.copytree(ROOT / "smss", self.folder / "smss", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(
            ROOT / "plugins" / "enginehost-template",
            self.folder / "plugins" / "enginehost-template",
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )
        weather = self.folder / "smss" / "current_weather.smss"
        weather.write_text(self.here(weather.read_text(encoding="utf-8")), encoding="utf-8")
        self.environment = {
            key: text for key, text in os.environ.items() if not key.startswith("ENGINEHOST_")
        }
        self.environment |= {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": str(self.site_packages),
            "ENGINEHOST_HTTP__ADDRESS": f"127.0.0.1:{self.port}",
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "OPENAI_API_KEY": "unused",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.model_port}/v1",
            "ANTHROPIC_API_KEY": "unused",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.model_port}",
            "GEMINI_API_KEY": "unused",
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{self.model_port}",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.model_port}",
            "AWS_ACCESS_KEY_ID": "unused",
            "AWS_SECRET_ACCESS_KEY": "unused",
            "AWS_DEFAULT_REGION": "us-east-1",
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }
        if self.bus:
            self.environment["ENGINEHOST_DATABUS__DOMAIN"] = str(self.domain)
        else:
            self.environment["ENGINEHOST_DATABUS__ENABLED"] = "false"

    def here(self, text: str) -> str:
        """A page's text with the ports and the domain that are free here."""
        text = text.replace(":8484", f":{self.port}").replace(":8585", f":{self.weather_port}")
        text = re.sub(r"(DOMAIN = |--domain |domain=)0\b", rf"\g<1>{self.domain}", text)
        # the interpreter of the tests stays as it is: what a page installs goes beside the page
        install = f"pip install --quiet --no-deps --no-build-isolation --target {self.site_packages}"
        return re.sub(r"^pip install (?:-e )?", f"{install} ", text, flags=re.MULTILINE)

    def there(self, text: str) -> str:
        """An output with the ports of the page."""
        text = text.replace(f":{self.port}", ":8484").replace(f":{self.weather_port}", ":8585")
        return text.replace(f"{self.folder}/", "")

    def follow(self, block: Block) -> None:
        """Do what a block says; an assertion fails where it is not as shown."""
        if block.file_name is not None:
            self._write(block.file_name, block.text)
        elif block.language == "sh" and block.text.strip() not in _NOT_RUN:
            if _BACKGROUND.fullmatch(block.text) and not _EXIT_CODE.search(block.text):
                self._start(block.text)
            else:
                self._run(block, ["bash", "-eo", "pipefail", "-c", self.here(block.text)])
        elif block.language == "python":
            program = self.folder / f"block_{block.line}.py"
            program.write_text(self.here(block.text), encoding="utf-8")
            self._run(block, [sys.executable, str(program)])

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text), encoding="utf-8")

    def _run(self, block: Block, command: list[str]) -> None:
        talks = ":8484" in block.text
        if talks and self.host is None:
            self._start("enginehost run\n")
        match = _EXIT_CODE.search(block.text)
        wanted = int(match[1]) if match else 0
        until = time.monotonic() + (PATIENCE if talks else 0.0)
        while True:
            done = subprocess.run(
                command, cwd=self.folder, env=self.environment, text=True, timeout=60,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            said = self.there(done.stdout)
            right = done.returncode == wanted and (block.output is None or shows(said, block.output))
            # a host takes up a new file within a fraction of a second: ask again, as a reader would
            if right or time.monotonic() > until:
                break
            time.sleep(0.1)
        for line in _EXPORT.findall(block.text):
            self.environment |= dict(_VARIABLE.findall(line))
        report = f"line {block.line}:\n{block.text}\nexit code {done.returncode}, output:\n{said}"
        assert done.returncode == wanted, report
        assert right, f"{report}\nshown:\n{block.output}"

    def _start(self, text: str) -> None:
        words = self.here(text).replace("make run", "enginehost run").split()
        words[0] = {"enginehost": str(BIN / "enginehost"), "python": sys.executable}[words[0]]
        if "run" not in words:
            words.append(str(self.weather_port))
            self.others.append(self._spawn(words))
            self._until_answers(f"http://127.0.0.1:{self.weather_port}/v1/weather/Berlin", self.others[-1])
            return
        if self.host is not None:
            self._end(self.host)
        if self.bus and "--domain" not in words:
            words += ["--domain", str(self.domain)]
        self.host = self._spawn(words)
        self._until_answers(f"http://127.0.0.1:{self.port}/readyz", self.host)

    def _spawn(self, words: list[str]) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                words, cwd=self.folder, env=self.environment, text=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _until_answers(self, url: str, process: subprocess.Popen[str]) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError):
                runs = process.poll() is None and time.monotonic() < until
                assert runs, f"{url} does not answer:\n{self.log.read_text()}"
                time.sleep(0.05)

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.wait(20)

    def close(self) -> None:
        """End what runs."""
        for process in [self.host, *self.others]:
            if process is not None:
                self._end(process)


@pytest.fixture(scope="session")
def models() -> Iterator[int]:
    """The port at which the stand-ins of models answer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def follow(tmp_path: Path, dds_domain: int, models: int) -> Iterator[Callable[[str], None]]:
    """Follows a page from its first block to its last."""
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("the pages use bash and curl, which are not installed")
    sites: list[Site] = []

    def through(page: str) -> None:
        words = ("cyclonedds", "--bus", "databus import Client", "enginehost databus", "enginehost monitor")
        bus = any(word in page for word in words)
        if bus:
            pytest.importorskip("cyclonedds")
        site = Site(tmp_path, dds_domain, bus, model_port=models)
        sites.append(site)
        for block in blocks_of(page):
            site.follow(block)

    yield through
    for site in sites:
        site.close()


@pytest.fixture
def read_blocks() -> Callable[[str], list[Block]]:
    """Finds the blocks of a page."""
    return blocks_of

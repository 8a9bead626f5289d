"""The host's own engines pass the suite that strangers' engines have to pass."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from enginehost.engine import HostAccess
from enginehost.testing import EngineContract
from enginehost_engines.class_engine import ClassEngine
from enginehost_engines.local_python import LocalPythonEngine
from enginehost_engines.reactor import ReactorEngine
from enginehost_engines.rest import RestEngine, StreamRestEngine

DOUBLE = """
FUNCTION_NAME = double
FUNCTION_DESCRIPTION = Twice the number
FUNCTION_PARAMETERS = [{"name": "n", "type": "number"}]
FUNCTION_REQUIRED_PARAMETERS = ["n"]
"""

SCRIPT = """
import asyncio, time

def double(n):
    if n < 0:
        raise ValueError("too small")
    if n == 1_000_000:
        time.sleep(300)
    return 2 * n

async def double_async(n):
    if n < 0:
        raise ValueError("too small")
    await asyncio.sleep(300 if n == 1_000_000 else 0)
    return 2 * n

def count(n):
    if n < 0:
        raise ValueError("too small")
    for item in range(int(n)):
        yield item
    if n == 7:
        time.sleep(300)

async def count_async(n):
    for item in range(int(n)):
        yield item
    await asyncio.sleep(300 if n == 7 else 0)
"""

DOUBLED = (({"n": 1}, 2), ({"n": 2.5}, 5.0), ({"n": 0}, 0), ({"n": 123456789}, 246913578))
COUNTED = (({"n": 2}, [0, 1]), ({"n": 0}, []), ({"n": 3}, [0, 1, 2]))


class LocalPython(EngineContract):
    engine_class = LocalPythonEngine
    function: ClassVar[str]
    examples = DOUBLED
    failing_arguments = ({"n": -1},)
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 1_000_000}

    def __init_subclass__(cls) -> None:
        cls.smss = (
            f"ENGINE_CLASS = LocalPython{DOUBLE}PYTHON_SCRIPT_PATH = scripts/script.py\n"
            f"PYTHON_FUNCTION_NAME = {cls.function}\n"
        )

    def prepare(self, folder: Path) -> None:
        (folder / "scripts").mkdir(exist_ok=True)
        (folder / "scripts" / "script.py").write_text(SCRIPT)


class TestLocalPython(LocalPython):
    function = "double"


class TestLocalPythonAsync(LocalPython):
    function = "double_async"


class TestLocalPythonStream(LocalPython):
    function = "count"
    examples = COUNTED
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 7}


class TestLocalPythonAsyncStream(LocalPython):
    function = "count_async"
    examples = COUNTED
    failing_arguments = ()
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 7}


class TestLocalPythonInTheHost(LocalPython):
    function = "double_async"
    access = HostAccess(in_process_python=True)

    def __init_subclass__(cls) -> None: ...

    smss = (
        f"ENGINE_CLASS = LocalPython{DOUBLE}PYTHON_SCRIPT_PATH = scripts/script.py\n"
        "PYTHON_FUNCTION_NAME = double_async\nPYTHON_ISOLATION = none\n"
    )


class TestReactor(EngineContract):
    engine_class = ReactorEngine
    smss = f"ENGINE_CLASS = Reactor{DOUBLE}REACTOR_CLASS_NAME = my_reactors.DoubleReactor\n"
    examples = DOUBLED
    failing_arguments = ({"n": -1},)
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 1_000_000}

    def prepare(self, folder: Path) -> None:
        (folder / "my_reactors.py").write_text(
            dedent("""
            import time
            from enginehost.reactor import NounMetadata, Reactor

            class DoubleReactor(Reactor):
                keys_to_get = ["n"]

                def execute(self):
                    self.organize_keys()
                    n = self.key_value["n"]
                    if n < 0:
                        return NounMetadata.error("too small")
                    if n == 1_000_000:
                        time.sleep(300)
                    return NounMetadata(2 * n)
            """)
        )


class TestPythonClass(EngineContract):
    engine_class = ClassEngine
    smss = f"ENGINE_CLASS = my_engines:Double{DOUBLE}"
    examples = DOUBLED
    failing_arguments = ({"n": -1},)
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 1_000_000}

    def prepare(self, folder: Path) -> None:
        (folder / "my_engines.py").write_text(
            dedent("""
            import asyncio
            from enginehost.engine import AbstractFunctionEngine

            class Double(AbstractFunctionEngine):
                async def execute(self, parameters):
                    n = parameters["n"]
                    if n < 0:
                        raise ValueError("too small")
                    if n == 1_000_000:
                        await asyncio.sleep(300)
                    return 2 * n
            """)
        )


class Service(BaseHTTPRequestHandler):
    """Doubles ``?n=`` for those who know the token; ``/count`` answers line by line."""

    protocol_version = "HTTP/1.1"
    leaving: ClassVar[threading.Event]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        n = json.loads(parse_qs(url.query)["n"][0])
        if self.headers["Authorization"] != "Bearer token-of-the-service":
            self.answer(401, {"error": self.headers["Authorization"]})
        elif n < 0:
            self.answer(400, {"error": "too small"})
        elif url.path == "/count":
            self.count(int(n))
        else:
            if n == 1_000_000:
                self.leaving.wait(300)
            self.answer(200, 2 * n)

    def count(self, n: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        for item in range(n):
            self.wfile.write(b"%d\n" % item)
        self.wfile.flush()
        if n == 7:
            self.leaving.wait(300)
        self.close_connection = True

    def answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of a running service."""
    leaving = threading.Event()
    handler = type("Handler", (Service,), {"leaving": leaving})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        leaving.set()
        server.shutdown()
        thread.join()


class Rest(EngineContract):
    path: ClassVar[str]
    kind: ClassVar[str]
    examples = DOUBLED
    failing_arguments = ({"n": -1},)
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 1_000_000}

    @pytest.fixture(autouse=True)
    def at_the_service(self, service: str) -> None:
        type(self).smss = (
            f"ENGINE_CLASS = {self.kind}{DOUBLE}API_ENDPOINT_URL = {service}{self.path}\n"
            "AUTH_TOKEN = token-of-the-service\n"
        )


class TestRest(Rest):
    engine_class = RestEngine
    path = "/double"
    kind = "REST"


class TestStreamRest(Rest):
    engine_class = StreamRestEngine
    path = "/count"
    kind = "prerna.engine.impl.function.StreamRESTFunctionEngine"
    examples = COUNTED
    slow_arguments: ClassVar[dict[str, Any]] = {"n": 7}

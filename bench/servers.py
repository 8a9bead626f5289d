"""The servers of the benchmarks; ``servers.py KIND CORE`` serves on a free port, on that core, and prints it.

All run on the same uvicorn: uvloop, httptools, no access log. The host's own protocol for it, which writes
head and body of an answer at once, also serves a bare route, to show what that alone brings.
"""

# Annotations are not postponed here: FastAPI reads those of a function within a function.

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from measuring import pin


@contextmanager
def running(kind: str, core: int, python: str = sys.executable) -> Generator[tuple[int, int]]:
    """A server of this kind, in a process of its own: its process id and its port."""
    quiet = {**os.environ, "FASTMCP_LOG_LEVEL": "ERROR"}
    command = [python, __file__, kind, str(core)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet, start_new_session=True)
    try:
        assert server.stdout is not None
        yield server.pid, int(server.stdout.readline())
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def bare() -> Any:
    """A route of Starlette that parses, adds and dumps, and does nothing else."""
    import orjson
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def add(request: Request) -> Response:
        body = orjson.loads(await request.body())
        return Response(orjson.dumps({"result": body["a"] + body["b"]}), media_type="application/json")

    return Starlette(routes=[Route("/v1/functions/add", add, methods=["POST"])])


def bare_mcp() -> Any:
    """A route of Starlette that gives the very bytes that the host's ``tools/call`` gives."""
    import orjson
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def call(request: Request) -> Response:
        body = orjson.loads(await request.body())
        given = body["params"]["arguments"]
        found = given["a"] + given["b"]
        content = [{"type": "text", "text": str(found)}]
        result = {"content": content, "structuredContent": {"result": found}}
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        return Response(orjson.dumps(answer), media_type="application/json")

    return Starlette(routes=[Route("/mcp", call, methods=["POST"])])


def service() -> Any:
    """What REST functions call: any path, ``a`` and ``b`` in the query."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def add(request: Request) -> Response:
        given = request.query_params
        return Response(f"{float(given['a']) + float(given['b']):g}", media_type="application/json")

    return Starlette(routes=[Route("/{name}", add)])


def fastapi() -> Any:
    """FastAPI with a pydantic body."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Numbers(BaseModel):
        a: float
        b: float

    app = FastAPI()

    @app.post("/v1/functions/add")
    async def add(numbers: Numbers) -> dict[str, float]:  # pyright: ignore[reportUnusedFunction]
        return {"result": numbers.a + numbers.b}

    return app


def fastmcp() -> Any:
    """FastMCP's streamable HTTP in its quickest form: no sessions, JSON answers."""
    from fastmcp import FastMCP  # pyright: ignore[reportMissingImports] - the peer's interpreter has it

    server: Any = FastMCP("bench")

    async def add(a: float, b: float) -> float:
        """Adds two numbers."""
        return a + b

    server.tool(add)
    return server.http_app(stateless_http=True, json_response=True)


APPS = {
    "bare": bare,
    "bare, one write": bare,
    "bare mcp": bare_mcp,
    "service": service,
    "fastapi": fastapi,
    "fastmcp": fastmcp,
}

ENGINES = {
    "host": ("LocalPython in the host", "add_async"),
    "worker": ("LocalPython", "add"),
    "async worker": ("LocalPython", "add_async"),
}
"""The hosts: kind of engine, function of its script."""


async def serve_app(kind: str) -> None:
    """Serve an ASGI application."""
    import uvicorn

    protocol: Any = "httptools"
    if kind == "bare, one write":
        from enginehost.serve.protocol import HttpProtocol

        protocol = HttpProtocol
    lifespan = "on" if kind == "fastmcp" else "off"
    config = uvicorn.Config(
        APPS[kind](), http=protocol, ws="none", lifespan=lifespan, log_config=None, access_log=False,
        proxy_headers=False, server_header=False, backlog=2048, timeout_keep_alive=75,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(listener.getsockname()[1], flush=True)
        await server.serve([listener])


async def serve_host(folder: Path, log: TextIO) -> None:
    """Serve ``add`` by a whole host: a log line per call, metrics on, audit off, no databus."""
    from enginehost import Host, HostSettings
    from enginehost.serve.server import HttpServer

    async with Host(folder, None, settings=HostSettings(in_process_python=True), log=log) as host:
        server = HttpServer(host, "127.0.0.1:0")
        await server.start()
        print(server.address.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()


def main(kind: str, core: int) -> None:
    import uvloop

    pin(core)
    if kind in APPS:
        uvloop.run(serve_app(kind))
        return
    from folders import write, write_script

    engine, function = ENGINES[kind]
    with tempfile.TemporaryDirectory() as name, Path(os.devnull).open("w") as log:
        folder = Path(name)
        write_script(folder)
        write(folder, engine, "add", function)
        uvloop.run(serve_host(folder, log))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""A server of the official SDK: ``real_server.py stdio``, or ``http``, ``json`` or ``sse`` with a port."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

server = MCPServer("real")
noted: list[str] = []


class Point(BaseModel):
    x: int
    y: int = 0


@server.tool(structured_output=False)
async def double(n: float) -> str:
    """Twice the number"""
    if n < 0:
        raise ToolError("too small: secret-of-the-file")
    if n == 1_000_000:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            noted.append("cancelled")
            raise
    return str(2 * n)


@server.tool(
    title="Add up",
    annotations=types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)
def move(point: Point, by: int = 1) -> Point:
    """Move a point"""
    return Point(x=point.x + by, y=point.y + by)


@server.tool()
def heard() -> list[str]:
    """What happened here"""
    return noted


@server.tool(structured_output=False)
def picture() -> Any:
    """A picture, a sound, a link and two resources"""
    data = base64.b64encode(b"\x89PNG").decode()
    return [
        types.TextContent(type="text", text="see"),
        types.ImageContent(type="image", data=data, mime_type="image/png"),
        types.AudioContent(type="audio", data=data, mime_type="audio/wav"),
        types.ResourceLink(type="resource_link", uri="file:///a", name="a", mime_type="text/plain"),
        types.EmbeddedResource(
            type="resource", resource=types.TextResourceContents(uri="x:t", text="t", mime_type="text/plain")
        ),
        types.EmbeddedResource(type="resource", resource=types.BlobResourceContents(uri="x:b", blob=data)),
    ]


@server.tool(structured_output=False)
def nothing() -> None:
    """Nothing at all"""


@server.tool()
def environment() -> dict[str, str]:
    """The variables of this process"""
    return dict(os.environ)


@server.tool()
def folder() -> str:
    """Where this process runs"""
    return str(Path.cwd())


@server.tool()
def pid() -> int:
    """The id of this process"""
    return os.getpid()


@server.tool()
def child() -> int:
    """Start a program that stays"""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]).pid


@server.tool()
def die(code: int) -> str:
    """End this process, or kill it"""
    sys.stderr.write("these are my last words\n")
    sys.stderr.flush()
    if code < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code)


@server.tool()
async def freeze() -> str:
    """Never do anything again"""
    time.sleep(300)
    return ""


@server.tool(structured_output=False)
def large(size: int) -> str:
    """So many letters"""
    return "x" * size


@server.tool()
async def steps(ctx: Context) -> str:
    """Tells how far it is"""
    for step in range(3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool()
async def learn(name: str, ctx: Context) -> str:
    """Have one more tool"""
    server.add_tool(lambda: name, name=name, description=f"says {name}")
    await ctx.notify_tools_changed()
    if ctx.protocol_version is None or ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return name


@server.tool()
async def forget(name: str, ctx: Context) -> str:
    """Have one tool less"""
    server.remove_tool(name)
    await ctx.notify_tools_changed()
    if ctx.protocol_version is None or ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return name


@server.tool()
async def headers(ctx: Context) -> dict[str, str]:
    """The headers of this request"""
    return dict(ctx.headers or {})


class OnlyWithToken:
    """Lets those in who know the token, where there is one."""

    def __init__(self, app: Any, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self.token:
            given = Request(scope).headers.get("authorization")
            if given != f"Bearer {self.token}":
                await JSONResponse({"error": "no"}, 401)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def main(way: str, port: int = 0, token: str = "") -> None:
    if way == "stdio":
        server.run("stdio")
        return
    if way == "sse":
        app: Any = server.sse_app()
    else:
        app = server.streamable_http_app(json_response=way == "json")
    config = uvicorn.Config(
        OnlyWithToken(app, token), port=port, log_level="error", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)

    async def serve() -> None:
        task = asyncio.create_task(running.serve())
        while not running.started and not task.done():
            await asyncio.sleep(0.01)
        if running.started:
            sys.stdout.write(f"{running.servers[0].sockets[0].getsockname()[1]}\n")
            sys.stdout.flush()
        await task

    asyncio.run(serve())


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0], *(int(word) if word.isdigit() else word for word in words[1:]))

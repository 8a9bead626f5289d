"""A server without a library, which speaks the older handshake and does what its first argument says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BAD = sys.argv[1]
PLACE = sys.argv[2] if len(sys.argv) > 2 else ""


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "a tool", "inputSchema": {"type": "object"}, **more}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


HOSTILE = [
    tool("good"),
    tool("good"),
    tool("", title="no name"),
    tool("line\nbreak"),
    tool("n" * 500),
    tool("talks", description="d" * 1_000_000),
    tool("deep", inputSchema=deep(40)),
    tool("huge", inputSchema={"type": "object", "properties": {f"p{i}": {} for i in range(40_000)}}),
    tool("no_schema", inputSchema={"type": "object", "properties": {"a": {"type": "nonsense"}}}),
    tool("a_list", inputSchema={"type": "array"}),
    tool("far", inputSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}),
    tool("old", inputSchema={
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["pair"],
        "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    }),
    tool("default", inputSchema={
        "type": "object", "properties": {"a": {"type": "string", "default": None}},
    }),
    tool("result", outputSchema={"type": "object", "properties": {"a": {"pattern": "("}}}),
    tool("evil", outputSchema={"type": "object", "properties": {"t": {"pattern": "^(a+)+$"}}}),
]  # fmt: skip


def pages(cursor: str | None) -> dict[str, Any]:
    number = int(cursor or 0)
    following = {} if number == 4 else {"nextCursor": str(number + 1)}
    return {"tools": [tool(f"page_{number}_{i}") for i in range(3)], **following}


def tools(cursor: str | None) -> dict[str, Any]:
    if BAD == "pages":
        return pages(cursor)
    if BAD == "endless":
        return {"tools": [tool(f"t{cursor or 0}")], "nextCursor": str(int(cursor or 0) % 7 + 1)}
    if BAD == "malformed":
        return {"tools": "none"}
    if BAD == "double":
        parameters = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
        return {"tools": [tool("double", inputSchema=parameters), tool("other")]}
    return {"tools": HOSTILE if BAD == "hostile" else [tool("go", inputSchema={"type": "object"})]}


def answer(identifier: Any, arguments: dict[str, Any], name: str) -> None:
    text = {"content": [{"type": "text", "text": name}]}
    match BAD:
        case "large-first":
            say(id=identifier, result={"content": [{"type": "text", "text": "x" * 200_000}]})
        case "large-last":
            long = {"content": [{"type": "text", "text": "x" * 200_000}]}
            write(json.dumps({"result": long, "jsonrpc": "2.0", "id": identifier}))
        case "surrogate":
            write(
                f'{{"jsonrpc":"2.0","id":{identifier},"result":{{"content":[{{"type":"text","text":"\\ud800"}}]}}}}'
            )
        case "wrong-shape":
            say(id=identifier, result={"content": "none"})
        case "no-base64":
            say(id=identifier, result={"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]})
        case "error":
            say(id=identifier, error={"code": -32603, "message": "m" * 100_000 + "\nline"})
        case "flood":
            for number in range(5000):
                sys.stderr.write(f"line {number} " + "e" * 5000 + "\n")
            say(id=identifier, result=text)
        case "garbage":
            for number in range(100):
                write(f"hello {number} \x00\xff")
            say(id=identifier, result=text)
        case "only-garbage":
            while True:
                write("hello")
        case "evil-result" | "hostile":
            say(id=identifier, result={**text, "structuredContent": {"t": "a" * 60 + "!"}})
        case "talks":
            say(id=identifier, result=text)
            for _ in range(20_000):
                say(method="notifications/message", params={"level": "error", "data": "blah"})
        case "double":
            double(identifier, arguments["n"])
        case "deaf":
            time.sleep(300)
        case "silent":
            pass
        case _:
            say(id=identifier, result=text)


def double(identifier: Any, n: float) -> None:
    if n < 0:
        say(id=identifier, result={"content": [{"type": "text", "text": "too small"}], "isError": True})
    elif n != 1_000_000:
        say(id=identifier, result={"content": [{"type": "text", "text": str(2.0 * n)}]})


def main() -> None:
    if BAD == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kind = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
        started = subprocess.Popen([sys.executable, "-c", kind], stdin=subprocess.DEVNULL)
        Path(PLACE).write_text(f"{os.getpid()} {started.pid}")
    if BAD == "never-ready":
        Path(PLACE).write_text(str(os.getpid()))
        time.sleep(300)
    if BAD == "exits":
        sys.stderr.write("no module named tea\n")
        sys.exit(3)
    if BAD == "once" and Path(PLACE).exists():
        sys.exit(4)
    for line in sys.stdin:
        message = json.loads(line)
        if PLACE and BAD == "note":
            with Path(PLACE).open("a") as file:
                file.write(line)
        method, identifier = message["method"], message.get("id")
        params = message.get("params") or {}
        if method == "server/discover" and BAD == "only-handshake":
            sys.exit(5)
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "raw", "version": "1"}
            version = params["protocolVersion"]
            say(
                id=identifier,
                result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
            )
        elif method == "tools/list":
            say(id=identifier, result=tools(params.get("cursor")))
        elif method == "tools/call":
            if BAD in ("once", "dies"):
                if PLACE:
                    Path(PLACE).touch()
                os._exit(1)
            answer(identifier, params.get("arguments") or {}, params["name"])
        elif identifier is not None:
            say(id=identifier, error={"code": -32601, "message": "no such method"})
    if BAD == "stubborn":
        time.sleep(300)


main()

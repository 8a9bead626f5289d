"""A real local HTTP server on a thread, which records the bytes that arrive, and engines that call it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import h11
import pytest
from pydantic import ValidationError

from enginehost.config import config_keys
from enginehost.engine import AbstractFunctionEngine, Call, EngineContext, HostAccess
from enginehost.errors import ConfigError
from enginehost.redaction import Redactor
from enginehost.signature import FunctionSignature
from enginehost_engines.rest import RestConfig, RestEngine


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""

    def header(self, name: str) -> bytes | None:
        found = [value for key, value in self.headers if key.lower() == name.lower().encode()]
        assert len(found) <= 1, f"{name} arrived {len(found)} times"
        return found[0] if found else None


Answer = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def plain(body: bytes, content_type: str = "application/json", status: int = 200, **headers: str) -> Answer:
    """An answer with a length."""

    async def write(seen: Seen, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        writer.write(head + (b"" if seen.method == "HEAD" else body))

    return write


def chunked(*chunks: bytes, content_type: str = "text/plain", gate: asyncio.Event | None = None) -> Answer:
    """An answer in chunks; after the first it waits for ``gate``."""

    async def write(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n".encode())
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        for number, chunk in enumerate(chunks):
            if number == 1 and gate is not None:
                await gate.wait()
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    return write


async def redirect_once(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """``/a/302-there`` leads to ``/a/there``."""
    status, _, place = seen.target.decode().rpartition("/")[2].partition("-")
    answer = plain(b"", "", int(status), Location=place) if place else plain(b'"there"')
    await answer(seen, writer)


def raw(data: bytes) -> Answer:
    """These bytes, whatever they are, and the end of the connection."""

    async def write(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return write


def endless(head: bytes, piece: bytes) -> Answer:
    """The lines of ``head``, and then ``piece`` for as long as it is read."""

    async def write(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"\r\n\r\n")
        while True:
            writer.write(piece)
            await writer.drain()

    return write


async def stay_silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """No answer at all."""
    await asyncio.sleep(3600)


@dataclass
class Server:
    """The recording server. ``answer`` may be replaced by each test; ``closed`` counts ended connections."""

    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    answer: Answer = field(default_factory=lambda: plain(b"null"))
    opened: int = 0
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        connection = h11.Connection(h11.SERVER)
        seen: Seen | None = None
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Request):
                    seen = Seen(event.method.decode(), event.target, list(event.headers))
                elif isinstance(event, h11.Data):
                    assert seen is not None
                    seen.body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    assert seen is not None
                    self.seen.append(seen)
                    await self.answer(seen, writer)
                    await writer.drain()
                    # the answer was written raw: a fresh parser for the next request on the connection
                    rest, _ = connection.trailing_data
                    connection = h11.Connection(h11.SERVER)
                    if rest:
                        connection.receive_data(rest)
                else:
                    return
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        finally:
            writer.close()
            self.closed.release()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    server, started, stop = Server(), threading.Event(), []

    async def main() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        ended = asyncio.Event()
        stop.append((asyncio.get_running_loop(), ended))
        started.set()
        await ended.wait()
        listening.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(10)
    yield server
    loop, ended = stop[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(10)


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    shared_server.seen.clear()
    shared_server.answer = plain(b"null")
    shared_server.opened = 0
    return shared_server


def config(**keys: Any) -> RestConfig:
    """A config from smss keys and values as they are after reading; what is wrong is raised as itself."""
    inputs = {name: key.input_name for key in config_keys(RestConfig) for name in key.accepted}
    try:
        return RestConfig.model_validate({inputs[key]: value for key, value in keys.items()})
    except ValidationError as error:
        raised = error.errors()[0].get("ctx", {}).get("error")
        raise raised if isinstance(raised, ConfigError) else error from None


def signature(**properties: Any) -> FunctionSignature:
    required = [name for name, schema in properties.items() if schema.get("required", False)]
    schemas = {
        name: {k: v for k, v in schema.items() if k != "required"} for name, schema in properties.items()
    }
    return FunctionSignature("f", parameters={"type": "object", "properties": schemas, "required": required})


Make = Callable[..., Any]


@pytest.fixture
async def make(server: Server) -> AsyncIterator[Make]:
    """``make(kind, parameters=…, access=…, **keys)``: an engine that is closed after the test."""
    engines: list[AbstractFunctionEngine] = []

    def build(kind: type[Any] = RestEngine, parameters: Any = (), access: Any = None, **keys: Any) -> Any:
        declared = parameters if isinstance(parameters, FunctionSignature) else None
        declared = declared or signature(**{name: {} for name in parameters})
        bind = keys.pop("bind", {})
        keys.setdefault("URL", f"{server.url}/path")
        redactor = keys.pop("redactor", None) or Redactor()
        context = EngineContext(
            "e",
            signature=declared,
            bind=bind,
            access=access or HostAccess(),
            conceal=redactor.add,
            redact=redactor,
        )
        engine = kind(context, config(**keys))
        engines.append(engine)
        return engine

    yield build
    for engine in engines:
        await engine.close()


def call(seconds: float | None = 10.0) -> Call:
    import time

    return Call("f", deadline=None if seconds is None else time.monotonic() + seconds)


async def exhaust(answer: Any) -> None:
    """Take all that an engine's ``execute`` gives, at once or in items."""
    if not hasattr(answer, "__aiter__"):
        await answer
        return
    async for _ in answer:
        pass


class Sender:
    """Sends property-test examples over one loop; engines are kept by their keys."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.runner = asyncio.Runner()
        self.engines: dict[str, RestEngine] = {}

    def send(self, arguments: dict[str, Any], **keys: Any) -> Seen:
        """What arrives for these arguments."""
        self.result(arguments, **keys)
        assert len(self.server.seen) == 1
        return self.server.last

    def result(self, arguments: dict[str, Any] | None = None, **keys: Any) -> Any:
        """What the engine makes of the answer."""
        arguments = arguments or {}
        parameters = signature(**{name: keys.get("schema", {}) for name in arguments})
        keys = {key: value for key, value in keys.items() if key != "schema"}
        url = self.server.url + keys.pop("path", "/path")
        name = repr((sorted(arguments), url, keys, parameters))
        if name not in self.engines:
            context = EngineContext("e", signature=parameters)
            self.engines[name] = RestEngine(context, config(**{"URL": url, "HTTP_METHOD": "post", **keys}))
        self.server.seen.clear()
        return self.runner.run(self.engines[name].execute(arguments, call()))

    def close(self) -> None:
        for engine in self.engines.values():
            self.runner.run(engine.close())
        self.runner.close()


@pytest.fixture
def sender(server: Server) -> Iterator[Sender]:
    sender = Sender(server)
    yield sender
    sender.close()


async def form(seen: Seen) -> dict[str, Any]:
    """The fields of a form that arrived; a file is its name, media type and content."""
    from starlette.datastructures import UploadFile
    from starlette.requests import Request

    async def receive() -> Any:
        return {"type": "http.request", "body": seen.body}

    headers = [(name.lower(), value) for name, value in seen.headers]
    async with Request({"type": "http", "method": "POST", "headers": headers}, receive).form() as fields:
        return {
            key: (item.filename, item.content_type, await item.read())
            if isinstance(item, UploadFile)
            else item
            for key, item in fields.items()
        }


@pytest.fixture(scope="session")
def kit() -> Any:
    """What the tests of this folder share."""
    from types import SimpleNamespace

    return SimpleNamespace(
        call=call,
        config=config,
        form=form,
        signature=signature,
        plain=plain,
        chunked=chunked,
        redirect_once=redirect_once,
        raw=raw,
        endless=endless,
    )

"""A real host behind a real server in a thread of its own, and both clients of it under one form."""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from enginehost.catalog import EngineRecord
from enginehost.client import AsyncClient, AsyncSession, Client
from enginehost.engine import AbstractFunctionEngine, EngineContext, Function
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings
from enginehost.signature import FunctionSignature

SCRIPT = """
answers:
  - when: {text: wipe}
    reply:
      - call: {tool: wipe, args: {what: disk}}
  - when: {result: '*'}
    say: "The result is $result"
  - when: {text: long}
    tokens_per_second: 150
    say: "WORDS"
  - say: "You said: $text"
""".replace("WORDS", "word " * 200)
FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "actor.yaml": SCRIPT,
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = *\nINSTRUCTIONS = Help.\n",
    "tools.py": "def wipe(what: str) -> str:\n    return f'{what} is gone'\n",
    "wipe.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = wipe\n"
    "FUNCTION_DESCRIPTION = Wipes.\nAPPROVAL = always\n",
}
ANYTHING = {"type": "object", "additionalProperties": True}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
TOKEN = "ann-" + "s" * 40


class Functions(AbstractFunctionEngine):
    """Functions of this process; counts what runs in ``sleep``."""

    def __init__(self) -> None:
        super().__init__(EngineContext("tests"))
        self.sleeping = threading.Event()
        self.woken = threading.Event()

    def functions(self) -> tuple[Function, ...]:
        return (
            self._made("add", lambda p, _: p["a"] + p["b"], NUMBERS, tags=("math",)),
            self._made("echo", lambda p, _: p, ANYTHING),
            self._made("größe/weit", lambda p, _: "far", ANYTHING),
            self._made("count", self._count, ANYTHING, streaming=True),
            self._made("fail", self._fail, ANYTHING),
            self._made("sleep", self._sleep, ANYTHING, streaming=True),
            self._made("trace", lambda _, call: call.chain_id, ANYTHING),
        )

    def _made(self, name: str, run: Any, parameters: Any, **fields: Any) -> Function:
        signature = FunctionSignature(name, f"Does {name}.", parameters, **fields)
        return EngineContext("tests", signature=signature).function(run)

    async def _count(self, parameters: dict[str, Any], call: Any) -> AsyncIterator[Any]:
        for number in range(parameters.get("to", 3)):
            yield {"n": number, "raw": bytes([number])}

    async def _fail(self, parameters: dict[str, Any], call: Any) -> Any:
        raise RuntimeError("it broke")

    async def _sleep(self, parameters: dict[str, Any], call: Any) -> AsyncIterator[str]:
        import asyncio

        yield "awake"
        self.sleeping.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.woken.set()


@dataclass
class Served:
    url: str
    functions: Functions
    host: Host


Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """``with serve(**settings) as served``: a host with an agent and some functions."""

    @asynccontextmanager
    async def serving(**settings: Any) -> AsyncIterator[Served]:
        folder = tmp_path_factory.mktemp("host")
        (folder / "smss").mkdir()
        for name, text in FILES.items():
            (folder / "smss" / name).write_text(text)
        made = HostSettings(state_dir=folder / "state", **settings)
        async with Host(folder / "smss", None, settings=made, watch=False) as host:
            functions = Functions()
            await host.add_engine(EngineRecord("tests", "Test"), functions)
            server = HttpServer(host, "127.0.0.1:0")
            await server.start()
            try:
                yield Served(server.url, functions, host)
            finally:
                await server.stop(0.0)

    @contextmanager
    def in_thread(**settings: Any) -> Iterator[Served]:
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(serving(**settings)) as served,
        ):
            yield served

    return in_thread


@pytest.fixture(scope="module")
def served(serve: Serve) -> Iterator[Served]:
    with serve() as running:
        yield running


class Awaited:
    """An :class:`AsyncClient`, or a session of one, driven as one that blocks."""

    def __init__(self, portal: BlockingPortal, inner: Any) -> None:
        self._portal, self._inner = portal, inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return (lambda *args, **more: self._driven(found(*args, **more))) if callable(found) else found

    def __repr__(self) -> str:
        return repr(self._inner)

    def _driven(self, given: Any) -> Any:
        if inspect.iscoroutine(given):
            return self._driven(self._portal.call(_result, given))
        if isinstance(given, AsyncSession):
            return Awaited(self._portal, given)
        return self._items(given) if hasattr(given, "__anext__") else given

    def _items(self, items: Any) -> Iterator[Any]:
        try:
            while (item := self._portal.call(anext, items, self)) is not self:
                yield item
        finally:
            self._portal.call(items.aclose)


async def _result(coroutine: Any) -> Any:
    return await coroutine


Open = Callable[..., Any]


@pytest.fixture(params=["blocking", "awaited"])
def connect(request: pytest.FixtureRequest) -> Iterator[Open]:
    """``connect(url, …)``: a client of either kind, closed with the test."""
    opened: list[Any] = []
    with start_blocking_portal() as portal:

        def open_client(*args: Any, **more: Any) -> Any:
            made = Client(*args, **more) if request.param == "blocking" else AsyncClient(*args, **more)
            opened.append(made if request.param == "blocking" else Awaited(portal, made))
            return opened[-1]

        yield open_client
        for one in opened:
            one.close()


@pytest.fixture
def client(connect: Open, served: Served) -> Any:
    return connect(served.url)


class Raw:
    """A server that answers each request with the next of the given bytes, and keeps the requests.

    ``None`` closes without an answer.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self.requests: list[bytes] = []
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._socket.accept()
            with connection:
                self.requests.append(_request(connection))
                if answer is not None:
                    connection.sendall(answer)

    def close(self) -> None:
        self._socket.close()
        self._thread.join(10)


def _request(connection: socket.socket) -> bytes:
    """The head of a request, and its body; empty where the other side has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(h[15:]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def raw() -> Iterator[Callable[..., Raw]]:
    made: list[Raw] = []

    def start(*answers: bytes | None) -> Raw:
        made.append(Raw(*answers))
        return made[-1]

    yield start
    for one in made:
        one.close()


class Cutting:
    """A proxy to ``url`` that ends each stream of events after so many bytes."""

    def __init__(self, url: str, after: int) -> None:
        self.connections = 0
        self._to = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._after = after
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._pass, args=(connection,), daemon=True).start()

    def _pass(self, connection: socket.socket) -> None:
        # whoever leaves first breaks the other's pipe
        with suppress(OSError), connection, socket.create_connection(self._to) as there:
            if request := _request(connection):
                # the host then closes where its answer ends
                there.sendall(request.replace(b"onnection: keep-alive", b"onnection: close"))
                if b"/events" not in request.partition(b"\r\n")[0]:
                    connection.sendall(_request(there))  # an answer has the same frame
                    return
                left = self._after
                while left > 0 and (data := there.recv(min(left, 512))):
                    left -= len(data)
                    connection.sendall(data)
                return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def cutting() -> Iterator[Callable[[str, int], Cutting]]:
    made: list[Cutting] = []

    def start(url: str, after: int) -> Cutting:
        made.append(Cutting(url, after))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def smss() -> Path:
    """The folder of examples."""
    return Path(__file__).parents[3] / "smss"

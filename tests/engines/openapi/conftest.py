"""A real local service that keeps what arrives, and folders of imported files that call it."""

from __future__ import annotations

import email
import email.policy
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

DOCUMENTS = Path(__file__).parent / "documents"


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> list[tuple[str, str]]:
        return parse_qsl(self.body.decode(), keep_blank_values=True)

    @property
    def parts(self) -> list[tuple[str, str | None, str, bytes]]:
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + self.body, policy=email.policy.HTTP)
        return [
            (
                str(part.get_param("name", header="content-disposition")),
                part.get_filename(),
                part.get_content_type(),
                part.get_payload(decode=True),
            )
            for part in message.iter_parts()
        ]  # fmt: skip


@dataclass
class Service:
    """The service. ``answers`` has per path: status, headers and body; else it answers with ``null``."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    held: dict[str, threading.Event] = field(default_factory=dict)
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    def answer(
        self, path: str, value: Any, status: int = 200, kind: str = "application/json", **more: str
    ) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.answers[path] = status, {"Content-Type": kind, **more}, body


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, self.path, headers, body)
            state.seen.append(seen)
            state.arrived.set()
            if held := state.held.get(seen.path):
                held.wait(20)
            default = (200, {"Content-Type": "application/json"}, b"null")
            status, given, answer = state.answers.get(seen.path, default)
            if status == 200 and given.get("ETag") and headers.get("if-none-match") == given["ETag"]:
                status, answer = 304, b""
            self.send_response(status)
            for name, value in given.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    for held in state.held.values():
        held.set()
    server.shutdown()
    server.server_close()
    thread.join()


Secrets = Callable[..., None]


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the tests of this folder share."""
    from enginehost.cli.checking import check
    from enginehost.cli.importing import write_imported
    from enginehost_engines.openapi.documents import load_file
    from enginehost_engines.openapi.importer import imported
    from enginehost_engines.openapi.operations import Selection

    def no_fetch(url: str) -> bytes:
        raise AssertionError(f"{url} is asked for")

    def load(source: Path | dict[str, Any], folder: Path) -> Any:
        if isinstance(source, dict):
            path = folder / "document.json"
            path.write_text(json.dumps(source))
            source = path
        return load_file(source, no_fetch, remote=False)

    def write(source: Path | dict[str, Any], folder: Path, **selection: Any) -> Any:
        """Import into ``folder / smss``; every file has to be valid, without a finding."""
        force = selection.pop("force", False)
        made = imported(load(source, folder), Selection(**selection))
        outcome = write_imported("openapi", made, folder / "smss", force=force, dry_run=False)
        if outcome.written:
            assert check([folder / "smss"], None, load=False)[1] == []
        return outcome

    def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
        servers = [{"url": "http://127.0.0.1:9"}]
        return {
            "openapi": version,
            "info": {"title": "T", "version": "1"},
            "servers": servers,
            "paths": paths,
            **more,
        }

    return SimpleNamespace(documents=DOCUMENTS, load=load, write=write, document=document)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    def give(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"ENGINEHOST_SECRET_{name.upper()}", value)

    return give

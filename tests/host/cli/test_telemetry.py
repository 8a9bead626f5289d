"""``enginehost run`` exports traces where OpenTelemetry's standard variables ask for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from enginehost.cli.telemetry import wanted_exporters

from .conftest import run_until_its_page, running

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
QUIET = {"NO_PROXY": "127.0.0.1", "OTEL_BSP_SCHEDULE_DELAY": "600000"}
"""The last spans leave at the stop, or never."""


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, ()),
        ({"OTEL_TRACES_EXPORTER": "console, otlp,console"}, ("console", "otlp")),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, ()),
        ({"OTEL_SDK_DISABLED": "True", "OTEL_TRACES_EXPORTER": "otlp"}, ()),
        ({"OTEL_SDK_DISABLED": "false", "OTEL_TRACES_EXPORTER": "otlp"}, ("otlp",)),
    ],
    ids=str,
)
def test_the_standard_variables_say_what_is_exported(
    environ: dict[str, str], wanted: tuple[str, ...]
) -> None:
    assert wanted_exporters(environ) == wanted


@pytest.fixture
def collector() -> Iterator[Any]:
    """A collector that keeps what it was sent as ``received``."""

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    received: list[tuple[str, bytes]] = []
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.received = received
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def call_add(url: str) -> None:
    headers = {"Content-Type": "application/json", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    with urlopen(Request(f"{url}/v1/functions/add", b'{"a":1,"b":2}', headers), timeout=20) as answer:
        assert answer.read() == b'{"result":3}'


def messages(events: list[dict[str, Any]]) -> str:
    return "\n".join(str(event.get("message")) for event in events if event["event"] == "log")


@pytest.mark.parametrize(
    ("more", "service"),
    [({}, "enginehost"), ({"OTEL_SERVICE_NAME": "till"}, "till")],
    ids=["default", "named"],
)
def test_a_call_is_a_span_at_the_collector(
    folder: Path, collector: Any, more: dict[str, str], service: str
) -> None:
    protocol = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    with running(folder, env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **QUIET, **more}) as host:
        assert f"traces are exported (otlp) as service {service}" in messages(host.events)
        call_add(host.url)
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
    ((path, body),) = collector.received
    assert path == "/v1/traces"
    (resource_spans,) = protocol.ExportTraceServiceRequest.FromString(body).resource_spans
    attributes = {one.key: one.value.string_value for one in resource_spans.resource.attributes}
    assert attributes["service.name"] == service
    (span,) = resource_spans.scope_spans[0].spans
    assert span.name == "call add"
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    call_id = next(event["call_id"] for event in host.events if event["event"] == "call")
    assert span.span_id.hex() == call_id


def test_a_collector_that_is_not_there_hinders_neither_calls_nor_the_stop(folder: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    refused = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", **QUIET}
    with running(folder, env={**refused, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}) as host:
        call_add(host.url)
        host.signal(signal.SIGTERM)
        assert host.ended() == 0
    assert "the last traces were not taken within 5 s" in messages(host.events)


@pytest.mark.parametrize(
    ("hidden", "exporter"),
    [("opentelemetry.sdk", "otlp"), ("opentelemetry.exporter", "otlp"), ("nothing", "of-another-world")],
)
def test_what_is_not_installed_is_told_with_a_remedy(folder: Path, hidden: str, exporter: str) -> None:
    done = run_until_its_page(
        folder,
        f"import sys; sys.modules[{hidden!r}] = None",
        f"import os; os.environ['OTEL_TRACES_EXPORTER'] = {exporter!r}",
    )
    assert done.returncode == 0
    assert f"exporter {exporter}" in done.stderr
    assert "pip install 'enginehost[otel]'" in done.stderr


def test_an_exporter_that_fails_is_told_and_the_host_runs(folder: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    wrong = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}
    with running(folder, env=wrong | QUIET) as host:
        assert "traces are not exported: ValueError" in messages(host.events)
        call_add(host.url)


def test_nobody_asks_and_no_sdk_is_loaded(folder: Path) -> None:
    code = (
        "import os, sys\n"
        "for name in [name for name in os.environ if name.startswith('OTEL_')]: del os.environ[name]\n"
        "from enginehost.cli import telemetry\n"
        "telemetry.start()()\n"
        "sys.exit('opentelemetry.sdk' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Traces of a running host, where OpenTelemetry's standard variables ask for them.

The host makes spans of calls as soon as a tracer provider is set (see ``tracing.py``); here one is set.
The SDK reads the other variables itself (``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_TRACES_SAMPLER``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_BSP_…``).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTERS = "opentelemetry_traces_exporter"
"""The entry-point group in which distributions of OpenTelemetry register exporters."""
_OTLP = {"": "otlp_proto_http", "http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_SERVICE = "enginehost"
_LAST_SECONDS = 5.0
"""How long the last spans may take to leave: a collector that is gone must not hold up the stop."""

_log = logging.getLogger("enginehost.run")


def start() -> Callable[[], None]:
    """Export traces if the environment asks for it; the returned function sends the last ones.

    Where that is impossible, the log says so, and the host runs without.
    """
    wanted = wanted_exporters(os.environ)
    if not wanted:
        return _nothing
    try:
        exporters = [_exporter(name) for name in wanted]
        provider = _provider(exporters)
    except ImportError:
        _log.warning(
            "the environment asks for traces (exporter %s), and OpenTelemetry's SDK or that exporter is not "
            "installed: pip install 'enginehost[otel]'",
            ", ".join(wanted),
        )
        return _nothing
    except Exception as error:  # noqa: BLE001 - exporters are plugins: they raise what they like
        _log.warning("traces are not exported: %s: %s", type(error).__name__, error)
        return _nothing
    service = provider.resource.attributes["service.name"]
    _log.info("traces are exported (%s) as service %s", ", ".join(wanted), service)
    return lambda: _stop(provider)


def wanted_exporters(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The trace exporters that the variables ask for.

    As OpenTelemetry specifies them, except that without ``OTEL_TRACES_EXPORTER`` traces go to OTLP only
    where an endpoint is named: nobody who has not asked wants spans sent to port 4318.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if not named and _first(environ, _ENDPOINTS):
        named = "otlp"
    words = (word.strip() for word in named.split(","))
    return tuple(dict.fromkeys(word for word in words if word not in ("", "none")))


def _first(environ: Mapping[str, str], names: Sequence[str]) -> str:
    return next((text for name in names if (text := environ.get(name, "").strip())), "")


def _exporter(name: str) -> SpanExporter:
    if name == "otlp":
        protocol = _first(os.environ, _PROTOCOLS)
        name = _OTLP.get(protocol, protocol)
    found = next(iter(entry_points(group=_EXPORTERS, name=name)), None)
    if found is None:
        raise ImportError(f"no exporter {name}")
    return found.load()()


def _provider(exporters: Sequence[SpanExporter]) -> TracerProvider:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    given = Resource.create()
    if str(given.attributes.get("service.name", "")).startswith("unknown_service"):
        return given.merge(Resource({"service.name": _SERVICE}))
    return given


def _stop(provider: TracerProvider) -> None:
    last = threading.Thread(target=provider.shutdown, daemon=True)
    last.start()
    last.join(_LAST_SECONDS)
    if last.is_alive():
        _log.warning("the last traces were not taken within %g s", _LAST_SECONDS)


def _nothing() -> None:
    """No traces."""

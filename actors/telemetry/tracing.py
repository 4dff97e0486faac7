"""Sends spans of control-plane work (a start, a move, a drain) to the OTLP collector, if one is configured.

tracing = open_tracing(config.telemetry, mirror="A-B", version="1.0")
with tracing.span("supervisor step", term=3):
    ...
tracing.record("move set", took_s=0.8, set="A->B/017", taker="copier-2")  # work that is over already
tracing.close()
"""

import time
from contextlib import AbstractContextManager, nullcontext

from engine.config.settings import TelemetryConfig

Span = AbstractContextManager[object]
Attribute = str | float | bool


class Tracing:
    """Receiver of spans; this base class drops them."""

    def span(self, name: str, **attributes: Attribute) -> Span:
        """Measure the work within the context; note an error that leaves it."""
        return nullcontext()

    def record(self, name: str, took_s: float, **attributes: Attribute) -> None:
        """Record work that ends now and took `took_s` seconds."""

    def close(self) -> None:
        """Send the remaining spans, for a bounded time."""


class OtlpTracing(Tracing):
    """Sends spans to a collector, in batches, from a thread of the SDK."""

    def __init__(self, endpoint: str, mirror: str, version: str) -> None:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from actors.telemetry.otlp import TIMEOUT_S, resource_of

        exporter = OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=TIMEOUT_S, compression=Compression.Gzip)
        self._provider = TracerProvider(resource=resource_of(mirror, version), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("raymirror", version)

    def span(self, name: str, **attributes: Attribute) -> Span:
        return self._tracer.start_as_current_span(name, attributes=attributes)

    def record(self, name: str, took_s: float, **attributes: Attribute) -> None:
        ended_ns = time.time_ns()
        span = self._tracer.start_span(name, attributes=attributes, start_time=ended_ns - int(took_s * 1e9))
        span.end(ended_ns)

    def close(self) -> None:
        self._provider.shutdown()


def open_tracing(config: TelemetryConfig, *, mirror: str, version: str) -> Tracing:
    """Return the tracing that the configuration asks for."""
    return OtlpTracing(config.otlp_endpoint, mirror, version) if config.otlp_endpoint else Tracing()

"""Runs the telemetry of a mirror: metrics, probes and traces, as configured.

telemetry = Telemetry(mirror="raymirror-A-B", version="1.0")
telemetry.open(config.telemetry, supervisor)  # again after a reload
group.create_task(telemetry.run())            # until cancelled
with telemetry.step(term=3):                  # each step of the supervisor
...
"""

from collections.abc import Iterator
from contextlib import contextmanager

from actors.control.ports import ControlSpan
from actors.model.status import EventLine
from actors.telemetry.exporter import Exporter, StatusSource
from actors.telemetry.tracing import Tracing, open_tracing
from engine.config.settings import TelemetryConfig


class Telemetry:
    """Observes the supervisor, and exports what it has observed. Before `open` it counts and sends nothing."""

    def __init__(self, *, mirror: str, version: str) -> None:
        self._mirror, self._version = mirror, version
        self._exporter: Exporter | None = None
        self._tracing = Tracing()

    def open(self, config: TelemetryConfig, source: StatusSource) -> None:
        """Export as `config` says from now on. After a changed configuration, call `run` again as well."""
        self._tracing.close()
        self._tracing = open_tracing(config, mirror=self._mirror, version=self._version)
        self._exporter = Exporter(config, source)

    @property
    def pages(self) -> Exporter:
        """The pages of metrics and probes. Raises LookupError before `open`."""
        if self._exporter is None:
            raise LookupError("telemetry is not open")
        return self._exporter

    async def run(self) -> None:
        """Serve and send, as configured, until cancelled."""
        if self._exporter is not None:
            await self._exporter.run()

    def close(self) -> None:
        """Send the remaining spans."""
        self._tracing.close()

    @contextmanager
    def step(self, term: int) -> Iterator[None]:
        """Measure a step of the supervisor, and note that it was completed."""
        with self._tracing.span("supervisor step", term=term):
            yield
        if self._exporter is not None:
            self._exporter.beat()

    def count(self, line: EventLine) -> None:
        if self._exporter is not None:
            self._exporter.count(line)

    def record(self, span: ControlSpan) -> None:
        """Send a span of the control plane."""
        known = {"flow": str(span.flow), "about": span.about, "giver": span.giver, "taker": span.taker}
        filled = {name: text for name, text in known.items() if text}
        self._tracing.record(span.name, span.ended_s - span.began_s, **filled)

"""Sends series to an OTLP collector, in the SDK's data model, from the same table as the Prometheus page.

It does not use the SDK's instruments: those silently merge series beyond a limit into one, keep series that have ended,
and cannot take a histogram that was counted elsewhere.
"""

from collections.abc import Iterator

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from actors.telemetry.collect import Collected, Labels, Series
from actors.telemetry.families import Family, MetricKind
from engine.core.reports.latency import BOUNDS_MS, Histogram

TIMEOUT_S = 10.0
POINTS_PER_REQUEST = 5000
"""A point takes 150 to 250 bytes, and collectors refuse requests beyond some megabytes."""
_BOUNDS_S = tuple(bound / 1000 for bound in BOUNDS_MS)
_CUMULATIVE = sdk.AggregationTemporality.CUMULATIVE


def resource_of(mirror: str, version: str) -> Resource:
    return Resource({"service.name": "raymirror", "service.instance.id": mirror, "service.version": version})


class Sender:
    """Sends series to a collector; the calls block, so they belong in a thread."""

    def __init__(self, endpoint: str, resource: Resource, version: str, began_ns: int) -> None:
        self._resource, self._began_ns = resource, began_ns
        self._scope = InstrumentationScope("raymirror", version)
        self._exporter = OTLPMetricExporter(
            endpoint=f"{endpoint}/v1/metrics",
            timeout=TIMEOUT_S,
            compression=Compression.Gzip,
            max_export_batch_size=POINTS_PER_REQUEST,
        )

    def send(self, collected: Collected, at_ns: int) -> bool:
        """Send everything; return False if the collector did not accept it."""
        metrics = [self._metric(family, series, at_ns) for family, series in collected.items() if series]
        scope = sdk.ScopeMetrics(scope=self._scope, metrics=metrics, schema_url="")
        of_mirror = sdk.ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        answer = self._exporter.export(sdk.MetricsData(resource_metrics=[of_mirror]))
        return answer is sdk.MetricExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()

    def _metric(self, family: Family, series: Series, at_ns: int) -> sdk.Metric:
        data: sdk.Histogram | sdk.Sum | sdk.Gauge
        if family.kind is MetricKind.HISTOGRAM:
            data = sdk.Histogram(list(self._histograms(family, series, at_ns)), _CUMULATIVE)
        elif family.kind is MetricKind.COUNTER:
            data = sdk.Sum(list(self._numbers(family, series, at_ns)), _CUMULATIVE, is_monotonic=True)
        else:
            data = sdk.Gauge(list(self._numbers(family, series, at_ns)))
        return sdk.Metric(name=family.name, description=family.help, unit=family.unit, data=data)

    def _numbers(self, family: Family, series: Series, at_ns: int) -> Iterator[sdk.NumberDataPoint]:
        for labels, value in series.items():
            if not isinstance(value, Histogram):
                yield sdk.NumberDataPoint(_attributes(family, labels), self._began_ns, at_ns, value)

    def _histograms(self, family: Family, series: Series, at_ns: int) -> Iterator[sdk.HistogramDataPoint]:
        for labels, value in series.items():
            if isinstance(value, Histogram):
                yield sdk.HistogramDataPoint(
                    attributes=_attributes(family, labels),
                    start_time_unix_nano=self._began_ns,
                    time_unix_nano=at_ns,
                    count=value.count,
                    sum=value.sum_ms / 1000,
                    bucket_counts=value.counts,
                    explicit_bounds=_BOUNDS_S,
                    min=None,  # type: ignore[arg-type] # optional in OTLP, and not known here
                    max=None,  # type: ignore[arg-type]
                )


def _attributes(family: Family, labels: Labels) -> dict[str, str]:
    return dict(zip(family.labels, labels, strict=False))

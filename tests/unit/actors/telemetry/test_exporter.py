"""The exporter over real sockets: scrapes, probes, a collector that decodes what it is sent."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from actors.model.states import Desired
from actors.model.status import EventLine, MirrorStatus
from actors.telemetry import exporter as exporting
from actors.telemetry import serving
from actors.telemetry.exporter import Exporter
from actors.telemetry.families import FAMILIES
from actors.telemetry.otlp import POINTS_PER_REQUEST
from actors.telemetry.tracing import Tracing, open_tracing
from engine.config.settings import TelemetryConfig
from tests.unit.actors.telemetry.statuses import copier, flow_status, lane, mirror_status, topic_status

pytestmark = pytest.mark.local

Told = list[tuple[str, str]]
EVENT = EventLine(at_ms=1, severity="error", flow="A->B", text="x")


class Mirror:
    """What an exporter asks."""

    def __init__(self, status: MirrorStatus | None = None) -> None:
        self.now = status or mirror_status(lane(), copiers=[copier()], topics=[topic_status()])

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        assert lanes, "series are made of lanes"
        return self.now

    def exporter(self, config: TelemetryConfig) -> Exporter:
        return Exporter(config, self, port_again_s=0.02)


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is logged: severities and sentences."""
    said: Told = []
    for module in (exporting, serving):
        monkeypatch.setattr(module, "log_sentence", lambda severity, text: said.append((severity, text)))
    return said


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def running(exporter: Exporter) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(exporter.run())
        yield
        task.cancel()


async def get(port: int, path: str) -> tuple[int, str]:
    """Ask until somebody listens."""
    async with asyncio.timeout(120), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.01)


async def scrape(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    status, text = await get(port, "/metrics")
    assert status == 200
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - what is waited for is said to a list
            await asyncio.sleep(0.01)


async def test_a_scrape_shows_the_mirror_as_it_is_now_and_series_of_what_ended_are_gone(
    told: Told,
) -> None:
    mirror, port = Mirror(), free_port()
    exporter = mirror.exporter(TelemetryConfig(port=port))
    exporter.count(EVENT)
    exporter.count(EVENT)
    async with running(exporter):
        found = await scrape(port)
        assert found["raymirror_lag_records"] == {("A->B", "t"): 10}
        assert found["raymirror_copier_partitions"] == {("A->B", "copier-1"): 3}
        assert found["raymirror_events_total"] == {("A->B", "error"): 2}
        mirror.now = mirror_status(lane("u", at=1, end=3), copiers=[copier("copier-2")])
        found = await scrape(port)
        assert found["raymirror_lag_records"] == {("A->B", "u"): 2}
        assert found["raymirror_copier_partitions"] == {("A->B", "copier-2"): 3}
    assert told == []


async def test_ten_thousand_partitions_are_all_there() -> None:
    many = [lane(f"topic-{topic}", partition) for topic in range(100) for partition in range(100)]
    mirror, port = Mirror(mirror_status(*many)), free_port()
    async with running(mirror.exporter(TelemetryConfig(port=port, per_partition=True))):
        found = await scrape(port)
    for name in (
        "raymirror_lag_records",
        "raymirror_lag_bytes",
        "raymirror_lag_seconds",
        "raymirror_records_total",
        "raymirror_record_bytes_total",
        "raymirror_replication_delay_seconds_total",
    ):
        assert len(found[name]) == 10_000, name
        assert set(found[name]) == {("A->B", one.lane.topic, str(one.lane.partition)) for one in many}


async def test_more_series_than_allowed_are_told_more_coarsely_and_that_is_said_once(
    told: Told,
) -> None:
    many = [lane(f"topic-{topic}", partition) for topic in range(3) for partition in range(5)]
    mirror, port = Mirror(mirror_status(*many)), free_port()
    async with running(mirror.exporter(TelemetryConfig(port=port, per_partition=True, most_series=10))):
        found = await scrape(port)
        assert await scrape(port) == found
    assert len(found["raymirror_lag_records"]) == 3
    assert sum(found["raymirror_lag_records"].values()) == 150
    assert found["raymirror_left_out_series"][("raymirror_lag_records",)] == 12
    ((severity, text),) = told
    assert severity == "warning"
    assert "reported by topic: 12 more" in text
    assert "raymirror.metrics.max.series = 10" in text


async def test_health_is_a_supervisor_that_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, port, now = Mirror(), free_port(), 1000.0
    monkeypatch.setattr(exporting, "now_s", lambda: now)
    exporter = mirror.exporter(TelemetryConfig(port=port))
    async with running(exporter):
        assert await get(port, "/healthz") == (200, "ok\n")
        now += 31.0
        assert await get(port, "/healthz") == (503, "no step of the supervisor for 31 s\n")
        assert (await get(port, "/readyz"))[0] == 503
        exporter.beat()
        assert await get(port, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, (200, "ok\n")),
        ({"phase": "starting"}, (503, "the mirror is starting\n")),
        ({"phase": "waiting", "flows": (flow_status(waiting_for="A"),)}, (503, "A->B waits for A\n")),
        ({"flows": (flow_status(waiting_for="a copier"),)}, (503, "A->B waits for a copier\n")),
        ({"flows": (flow_status(waiting_for="a copier", desired=Desired.PAUSED),)}, (200, "ok\n")),
    ],
)
async def test_readiness_is_every_flow_that_should_run_being_able_to(
    change: dict[str, object], answer: tuple[int, str]
) -> None:
    mirror, port = Mirror(), free_port()
    mirror.now = msgspec.structs.replace(mirror.now, **change)
    async with running(mirror.exporter(TelemetryConfig(port=port))):
        assert await get(port, "/readyz") == answer


async def test_a_port_that_is_taken_is_said_and_tried_again(told: Told) -> None:
    mirror, port = Mirror(), free_port()
    holder = socket.create_server(("127.0.0.1", port))
    async with running(mirror.exporter(TelemetryConfig(port=port))):
        await until(lambda: told)
        holder.close()
        assert (await get(port, "/healthz"))[0] == 200
    ((severity, text),) = told
    assert severity == "warning"
    assert f"127.0.0.1:{port}" in text


async def test_nothing_configured_is_nothing_done() -> None:
    async with asyncio.timeout(120):
        await Mirror().exporter(TelemetryConfig()).run()


class Collector:
    """A collector: keeps what it is sent, or answers with an error."""

    def __init__(self) -> None:
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.refused = 0
        self.status = 200

    async def take(self, request: web.Request) -> web.Response:
        if self.status != 200:
            self.refused += 1
            return web.Response(status=self.status)
        body = await request.read()
        assert request.headers["Content-Type"] == "application/x-protobuf"
        assert request.headers["Content-Encoding"] == "gzip"
        if request.path == "/base/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        else:
            assert request.path == "/base/v1/traces"
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        return web.Response(body=b"", content_type="application/x-protobuf")

    def points(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values -> value, of everything that was sent."""
        return {
            tuple(pair.value.string_value for pair in point.attributes): point.as_double or point.as_int
            for one in self.metrics
            for resource in one.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in (metric.gauge.data_points or metric.sum.data_points)
        }


def points_of(request: ExportMetricsServiceRequest) -> int:
    return sum(
        len(metric.gauge.data_points) + len(metric.sum.data_points) + len(metric.histogram.data_points)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/base/v1/{signal}", collector.take)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield collector, f"http://127.0.0.1:{runner.addresses[0][1]}/base"
    finally:
        await runner.cleanup()


async def test_a_collector_gets_the_same_series_with_resource_units_and_kinds(told: Told) -> None:
    async with collecting() as (collector, endpoint):
        mirror = Mirror()
        exporter = mirror.exporter(TelemetryConfig(otlp_endpoint=endpoint, otlp_every_s=60.0))
        exporter.count(EVENT)
        async with running(exporter):
            await until(lambda: collector.metrics)
        (sent,) = collector.metrics
        (resource,) = sent.resource_metrics
        assert {pair.key: pair.value.string_value for pair in resource.resource.attributes} == {
            "service.name": "raymirror",
            "service.instance.id": "raymirror-A-B",
            "service.version": "1.2",
        }
        metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
        assert metrics.keys() == {family.name for family in FAMILIES}
        assert collector.points("raymirror_lag_records") == {("A->B", "t"): 10}
        assert collector.points("raymirror_lag_seconds") == {("A->B", "t"): 5.0}
        records = metrics["raymirror_records_total"]
        assert records.unit == "{record}"
        assert records.sum.is_monotonic
        assert records.sum.aggregation_temporality == 2  # cumulative
        (latency,) = metrics["raymirror_replication_latency_seconds"].histogram.data_points
        assert (latency.count, latency.sum, sum(latency.bucket_counts)) == (2, 90_000.03, 2)
        assert len(latency.bucket_counts) == len(latency.explicit_bounds) + 1
        assert not latency.HasField("min")
        assert latency.start_time_unix_nano < latency.time_unix_nano
    assert told == []


async def test_ten_thousand_partitions_reach_a_collector_in_several_requests() -> None:
    many = [lane(f"topic-{topic}", partition) for topic in range(100) for partition in range(100)]
    async with collecting() as (collector, endpoint):
        mirror = Mirror(mirror_status(*many))
        config = TelemetryConfig(otlp_endpoint=endpoint, otlp_every_s=60.0, per_partition=True)
        async with running(mirror.exporter(config)):
            await until(lambda: len(collector.points("raymirror_records_total")) == 10_000)
            await until(lambda: len(collector.points("raymirror_lag_seconds")) == 10_000)
            await until(lambda: sum(points_of(one) for one in collector.metrics) > 60_000)
        assert max(points_of(one) for one in collector.metrics) <= POINTS_PER_REQUEST


async def test_a_collector_that_refuses_is_said_once_counted_and_told_when_it_takes_again(
    told: Told,
) -> None:
    async with collecting() as (collector, endpoint):
        collector.status = 400
        mirror, port = Mirror(), free_port()
        config = TelemetryConfig(port=port, otlp_endpoint=endpoint, otlp_every_s=0.01)
        async with running(mirror.exporter(config)):
            await until(lambda: collector.refused > 2)
            assert (await scrape(port))["raymirror_export_failures_total"][()] >= 2
            collector.status = 200
            await until(lambda: collector.metrics)
            await until(lambda: len(told) == 2)
    assert [severity for severity, _ in told] == ["warning", "info"]
    assert endpoint in told[0][1]


async def test_spans_reach_the_collector() -> None:
    async with collecting() as (collector, endpoint):
        tracing = open_tracing(TelemetryConfig(otlp_endpoint=endpoint), mirror="raymirror-A-B", version="1.2")
        with tracing.span("move set", set_id="A->B/000", to="copier-2"), tracing.span("drain"):
            pass
        tracing.record("take over set", 2.5, about="A->B/001")
        await asyncio.to_thread(tracing.close)
        spans = [
            span
            for one in collector.traces
            for resource in one.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
    inner, outer, over = sorted(spans, key=lambda span: span.name)
    assert (over.name, over.end_time_unix_nano - over.start_time_unix_nano) == ("take over set", 2_500_000_000)
    assert (inner.name, outer.name, inner.parent_span_id) == ("drain", "move set", outer.span_id)
    assert {pair.key: pair.value.string_value for pair in outer.attributes} == {"set_id": "A->B/000", "to": "copier-2"}


def test_without_a_collector_a_span_is_nothing() -> None:
    tracing = open_tracing(TelemetryConfig(), mirror="m", version="1")
    assert type(tracing) is Tracing
    with tracing.span("start", copier="c"):
        tracing.record("move set", 1.0)
        tracing.close()

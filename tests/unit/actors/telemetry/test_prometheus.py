"""The metrics page, read by Prometheus' own parser."""

from prometheus_client.parser import text_string_to_metric_families

from actors.telemetry import families as f
from actors.telemetry.collect import Detail, PartitionCounters, collect
from actors.telemetry.prometheus import page
from engine.core.reports.latency import BOUNDS_MS
from tests.unit.actors.telemetry.statuses import copier, flow_status, lane, mirror_status, topic_status


def parsed(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name -> label values (le last) -> value."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def text() -> str:
    status = mirror_status(lane(), copiers=[copier()], topics=[topic_status()])
    return page(collect(status, Detail(2), PartitionCounters(), {("A->B", "error"): 3}, 0))


def test_every_family_is_there_with_help_and_type() -> None:
    families = {family.name: family for family in text_string_to_metric_families(text())}
    for family in f.FAMILIES:
        known = families[family.name.removesuffix("_total")]
        assert known.type == family.kind.value
        assert known.documentation == family.help


def test_values_and_labels_are_what_they_were() -> None:
    found = parsed(text())
    assert found["raymirror_lag_records"] == {("A->B", "t"): 10}
    assert found["raymirror_lag_seconds"] == {("A->B", "t"): 5.0}
    assert found["raymirror_records_total"] == {("A->B", "t"): 100}
    assert found["raymirror_up_seconds"] == {(): 12.5}


def test_a_histogram_is_accumulated_from_bucket_to_bucket_in_seconds() -> None:
    found = parsed(text())
    buckets = found["raymirror_replication_latency_seconds_bucket"]
    assert len(buckets) == len(BOUNDS_MS) + 1
    assert buckets[("A->B", "0.025")] == 0
    assert buckets[("A->B", "0.05")] == buckets[("A->B", "86400")] == 1
    assert buckets[("A->B", "+Inf")] == found["raymirror_replication_latency_seconds_count"][("A->B",)] == 2
    assert found["raymirror_replication_latency_seconds_sum"][("A->B",)] == 90_000.03


def test_labels_are_escaped() -> None:
    odd = 'a"b\\c\nd'
    status = mirror_status(flows=[flow_status(odd)])
    found = parsed(page(collect(status, Detail(2), PartitionCounters(), {}, 0)))
    assert found["raymirror_topics"] == {(odd,): 2}


def test_a_metric_without_series_is_left_out() -> None:
    found = page(collect(mirror_status(), Detail(2), PartitionCounters(), {}, 0))
    assert "raymirror_lag_records" not in found.replace('metric="raymirror_lag_records"', "")

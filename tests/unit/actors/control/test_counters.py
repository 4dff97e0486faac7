"""Counters over copiers that start, end and hand partitions over."""

import msgspec

from actors.control.counters import FlowCounters
from engine.core.reports.latency import Histogram, LatencyHistogram
from engine.core.reports.progress import FlowProgress, TopicCount
from tests.unit.actors.fakes import FLOW, lane_progress, lanes


def durations(*ms: float) -> Histogram:
    metrics = LatencyHistogram()
    for one in ms:
        metrics.add(one)
    return metrics.snapshot()


def progress(records: dict[str, int], *, left: dict[str, int] | None = None, failures: int = 0) -> FlowProgress:
    """A copier with a lane per topic; every record weighs 100 bytes and took 7 ms, and was an append of its own."""
    held = [
        msgspec.structs.replace(lane_progress(lanes(topic, 1)[0], source_next=count), latency_ms=7 * count)
        for topic, count in records.items()
    ]
    gone = left or {}
    count = sum(records.values()) + sum(gone.values())
    return FlowProgress(
        flow=FLOW,
        at_ms=0,
        lanes=tuple(held),
        events=(),
        buffer_bytes=0,
        set_ids=(),
        left=tuple(
            TopicCount(topic=topic, records=one, wire_bytes=100 * one, latency_ms=7 * one)
            for topic, one in gone.items()
        ),
        records=count,
        wire_bytes=100 * count,
        append_failures=failures,
        append_latency=durations(*[3.0] * count),
        replication_latency=durations(*[7.0] * count),
        record_age=durations(*[5.0] * count),
        loop_stall=durations(*[1.0] * count),
    )


def records(counters: FlowCounters, living: dict[str, FlowProgress]) -> dict[str, int]:
    """Sum up by topic, and see that every other sum is of the same records."""
    topics, counts = counters.topics(living), counters.counts(living)
    for one in topics.values():
        assert (one.wire_bytes, one.latency_ms) == (100 * one.records, 7 * one.records)
    total = sum(one.records for one in topics.values())
    assert (counts.records, counts.wire_bytes) == (total, 100 * total)
    assert {histogram.count for histogram in counters.latencies(living)} == {total}
    return {one.topic: one.records for one in topics.values()}


def test_a_partition_that_moves_is_counted_on_by_each_copier() -> None:
    counters = FlowCounters()
    assert records(counters, {}) == {}
    assert records(counters, {"a": progress({"t": 10, "u": 5})}) == {"t": 10, "u": 5}
    moved = {"a": progress({"u": 6}, left={"t": 12}), "b": progress({"t": 1})}
    assert records(counters, moved) == {"t": 13, "u": 6}
    back = {"a": progress({"u": 6, "t": 2}, left={"t": 12}), "b": progress({}, left={"t": 3})}
    assert records(counters, back) == {"t": 17, "u": 6}


def test_what_a_copier_counted_outlives_it() -> None:
    counters = FlowCounters()
    counters.bury("a", progress({"t": 10}, failures=2))
    counters.bury("b", progress({"t": 1, "u": 1}, failures=1))
    now = {"c": progress({"t": 4}, failures=4)}
    assert records(counters, now) == {"t": 15, "u": 1}
    assert counters.counts(now).append_failures == 7
    assert records(counters, {}) == {"t": 11, "u": 1}  # summing up changes nothing


def test_what_an_adopted_copier_had_counted_before_is_not_ours_living_or_dead() -> None:
    counters = FlowCounters()
    counters.adopt("a", progress({"t": 10}, left={"u": 3}, failures=5))
    counters.adopt("a", progress({"t": 99}))  # later reports are no first ones
    now = {"a": progress({"t": 12}, left={"u": 3}, failures=6)}
    assert records(counters, now) == {"t": 2, "u": 0}
    assert counters.counts(now).append_failures == 1
    counters.bury("a", progress({"t": 13}, left={"u": 3}, failures=6))
    assert records(counters, {}) == {"t": 3, "u": 0}
    assert records(counters, {"a": progress({"t": 1})}) == {"t": 4, "u": 0}

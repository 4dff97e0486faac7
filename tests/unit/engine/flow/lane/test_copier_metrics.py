"""Metrics of the copy, by a clock that the test sets."""

from engine.core.lane.outcome import UNKNOWN_OUTCOME, Outcome, OutcomeKind
from engine.core.reports.latency import BOUNDS_MS, Histogram
from engine.core.reports.progress import TopicCount
from engine.flow.lane.copier_metrics import CopierMetrics

APPENDED = Outcome(OutcomeKind.APPENDED, 0)
REFUSED = Outcome(OutcomeKind.REFUSED, error_code=87)


class Clock:
    def __init__(self) -> None:
        self.wall_ms, self.mono_s = 10_000, 5.0

    def meter(self) -> CopierMetrics:
        return CopierMetrics(lambda: self.wall_ms, lambda: self.mono_s)


def durations(histogram: Histogram) -> dict[float, int]:
    """Upper bound -> count, of the buckets that hold something."""
    return {(*BOUNDS_MS, -1.0)[at]: count for at, count in enumerate(histogram.counts) if count}


def test_a_request_is_measured_from_sending_to_its_acknowledgement() -> None:
    clock = Clock()
    meter = clock.meter()
    sent_s = meter.sent()
    clock.mono_s += 0.004
    meter.answered(sent_s, [REFUSED, APPENDED])
    assert durations(meter.append_latency.snapshot()) == {5.0: 1}
    assert meter.append_failures == 1


def test_a_request_without_an_acknowledged_batch_has_no_latency() -> None:
    meter = Clock().meter()
    meter.answered(meter.sent(), [UNKNOWN_OUTCOME, REFUSED])
    assert meter.append_latency.snapshot().count == 0
    assert meter.append_failures == 2


def test_records_are_measured_from_their_timestamp_by_the_clock_of_the_answer() -> None:
    clock = Clock()
    meter = clock.meter()
    clock.wall_ms = 10_500
    assert meter.copied(9_900, 3) == 300  # the clock is asked when an answer comes, not for every batch
    meter.answered(meter.sent(), [APPENDED])
    assert meter.copied(9_900, 3) == 1800
    assert durations(meter.replication_latency.snapshot()) == {100.0: 3, 1000.0: 3}
    clock.wall_ms = 13_900
    assert meter.fetch_answered() == 13_900
    meter.fetched(9_900, 2)
    assert durations(meter.record_age.snapshot()) == {5000.0: 2}


def test_records_from_the_future_are_as_old_as_now_and_records_without_a_timestamp_have_no_age() -> None:
    meter = Clock().meter()
    assert meter.copied(99_000, 3) == 0
    assert meter.copied(-1, 3) == 0
    meter.fetched(-1, 3)
    meter.fetched(5, 0)
    assert durations(meter.replication_latency.snapshot()) == {0.5: 3}
    assert meter.record_age.snapshot().count == 0


def test_what_lanes_counted_is_kept_by_topic_when_they_leave() -> None:
    meter = Clock().meter()
    meter.leave("t", 1, 10, 100)
    meter.leave("u", 5, 50, 500)
    meter.leave("t", 2, 20, 200)
    assert list(meter.left) == [
        TopicCount(topic="t", records=3, wire_bytes=30, latency_ms=300),
        TopicCount(topic="u", records=5, wire_bytes=50, latency_ms=500),
    ]

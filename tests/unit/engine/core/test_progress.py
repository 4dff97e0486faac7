"""Lag from a snapshot."""

import pytest

from engine.core.progress import LaneProgress, TopicCount
from policies.model import TopicPartition


def progress(source_next: int, source_end: int, behind_since_ms: int = -1) -> LaneProgress:
    return LaneProgress(
        lane=TopicPartition("t", 0),
        target=TopicPartition("A.t", 0),
        state="copying",
        reason="",
        source_next=source_next,
        target_next=0,
        source_end=source_end,
        records=0,
        wire_bytes=0,
        in_flight=0,
        queued_bytes=0,
        resumed_by="",
        reencoded=0,
        skipped=0,
        behind_since_ms=behind_since_ms,
    )


@pytest.mark.parametrize(
    ("source_next", "source_end", "lag"), [(5, 12, 7), (12, 12, 0), (13, 12, 0), (-1, 12, 0), (5, -1, 0)]
)
def test_lag_is_what_lies_between_position_and_end_where_both_are_known(
    source_next: int, source_end: int, lag: int
) -> None:
    assert progress(source_next, source_end).lag_records == lag


@pytest.mark.parametrize(
    ("source_next", "source_end", "since", "lag_ms"),
    [(5, 12, 300, 700), (5, 12, 2000, 0), (12, 12, -1, 0), (-1, 12, -1, -1), (5, -1, -1, -1)],
)
def test_lag_in_time_is_none_without_lag_and_unknown_where_position_or_end_is(
    source_next: int, source_end: int, since: int, lag_ms: int
) -> None:
    assert progress(source_next, source_end, since).lag_ms(1000) == lag_ms


def test_counts_of_lanes_that_left_add_up() -> None:
    count = TopicCount(topic="t", records=1, wire_bytes=10, latency_ms=100).plus(2, 20, 200)
    assert count == TopicCount(topic="t", records=3, wire_bytes=30, latency_ms=300)

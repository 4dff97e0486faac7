"""Lag from a snapshot."""

import pytest

from engine.core.progress import LaneProgress
from policies.model import TopicPartition


@pytest.mark.parametrize(
    ("source_next", "source_end", "lag"), [(5, 12, 7), (12, 12, 0), (13, 12, 0), (-1, 12, 0), (5, -1, 0)]
)
def test_lag_is_what_lies_between_position_and_end_where_both_are_known(
    source_next: int, source_end: int, lag: int
) -> None:
    progress = LaneProgress(
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
    )
    assert progress.lag_records == lag

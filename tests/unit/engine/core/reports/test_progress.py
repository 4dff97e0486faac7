"""Lag from a snapshot."""

import pytest
from msgspec.structs import replace

from engine.core.reports.progress import FlowProgress, LaneProgress, TopicCount
from engine.core.reports.source_end import END_LASTS_MS
from policies.model import FlowName, TopicPartition


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
    ("source_next", "source_end", "lag"), [(5, 12, 7), (12, 12, 0), (13, 12, 0), (-1, 12, -1), (5, -1, -1)]
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


@pytest.mark.parametrize(("source_next", "since", "least", "heard_ms"), [(5, 300, 7, 3700), (12, -1, 0, 0)])
def test_a_lag_of_an_end_that_was_heard_long_ago_is_unknown_and_at_least_what_it_was(
    source_next: int, since: int, least: int, heard_ms: int
) -> None:
    fresh = replace(progress(source_next, 12, since), source_end_age_ms=END_LASTS_MS)
    assert fresh.lag_known
    assert fresh.lag_records == least
    silent = replace(fresh, source_end_age_ms=END_LASTS_MS + 1000)
    now_ms = 4000 + silent.source_end_age_ms
    assert not silent.end_known
    assert not silent.lag_known
    assert (silent.lag_records, silent.lag_ms(now_ms)) == (-1, -1)
    assert silent.lag_heard
    assert silent.least_lag_records == least
    assert silent.least_lag_ms(now_ms) == (now_ms - since if least else 0)
    assert silent.heard_lag_ms(now_ms) == heard_ms


def test_of_an_end_that_was_never_heard_nothing_is_known() -> None:
    never = replace(progress(5, -1), source_end_age_ms=-1)
    assert not never.lag_heard
    assert (never.least_lag_records, never.least_lag_ms(1000), never.heard_lag_ms(1000)) == (-1, -1, -1)


LANE = progress(5, 9)
FLOW = FlowProgress(
    flow=FlowName("A", "B"), at_ms=1, lanes=(LANE,), events=(), buffer_bytes=0, set_ids=("A->B/000",), records=3
)
NEWS: dict[str, object] = {
    "lane": TopicPartition("t", 1),
    "state": "failed",
    "reason": "refused",
    "source_next": 6,
    "source_end": 10,
    "source_reached": False,
    "in_flight": 1,
    "committed": False,
    "held": "a limit",
    "set_id": "A->B/001",
    "epoch": 7,
}
"""Fields of a lane, and other values of them."""
FLOW_NEWS: dict[str, object] = {
    "lanes": (),
    "records": 4,
    "wire_bytes": 1,
    "append_failures": 1,
    "left_out": 1,
    "set_ids": (),
    "waits_for": "cluster a",
    "is_open": False,
}


@pytest.mark.parametrize("name", LaneProgress.__struct_fields__)
def test_a_change_of_what_a_lane_does_is_a_fact_and_the_time_is_none(name: str) -> None:
    now = replace(LANE, **{name: NEWS.get(name, 77)})
    assert (now.facts != LANE.facts) is (name in NEWS)


@pytest.mark.parametrize("name", FlowProgress.__struct_fields__)
def test_a_change_of_what_a_flow_does_changes_its_totals_and_the_time_does_not(name: str) -> None:
    now = replace(FLOW, **{name: FLOW_NEWS.get(name, 77)})
    assert (now.totals != FLOW.totals) is (name in FLOW_NEWS)

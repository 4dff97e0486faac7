"""The summary of a history over a range of time: points, latencies, breaches, stalls."""

from pathlib import Path

import pytest

from engine.jobs.lag.history import History
from engine.jobs.lag.rpo_spans import Breach
from engine.jobs.lag.summary import STEPS_S, Latency, Summary, has_anything, step_for, summarize
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, WINDOW_MS, Row, add, copier_row, row

FLOWS = ("A->B", "A->C")


def minute_ms(minute: int) -> int:
    return BASE_MS + WINDOW_MS * minute


def told(folder: Path, rows: list[Row], *, rpo_s: float = 0.0, hours: int = 3) -> Summary:
    history = History(f"file:{folder}/lag")
    add(history, "g-0", rows)
    return summarize(history, BASE_MS, BASE_MS + hours * HOUR_MS, rpo_s={"A->B": rpo_s})


def test_partitions_add_up_and_the_worst_tells_the_seconds(tmp_path: Path) -> None:
    first: Row = {"lag_bytes": 50, "lag_ms_max": 4000, "records_per_s": 3.0, "bytes_per_s": 30.0, "drain_s": 2.0}
    second: Row = {"lag_bytes": 70, "lag_ms_max": 9000, "records_per_s": 1.0, "bytes_per_s": 10.0, "drain_s": 8.0}
    summary = told(tmp_path, [row(1, lag=5, **first), row(1, partition=1, lag=7, **second)])
    (point,) = summary.topics
    assert (point.topic, point.at_ms, point.partitions, point.stalled) == ("t", minute_ms(1), 2, 0)
    assert (point.lag_records, point.lag_bytes, point.lag_seconds, point.drain_s) == (12, 120, 9.0, 8.0)
    assert (point.records_per_s, point.bytes_per_s, point.skew) == (4.0, 40.0, 1.5)
    (flow,) = summary.flows
    assert (flow.lag_records, flow.lag_seconds, flow.copiers, flow.append) == (12, 9.0, 0, Latency())


def test_a_topic_is_drained_only_where_all_that_are_behind_shrink(tmp_path: Path) -> None:
    rows = [row(1, lag=5, drain_s=3.0), row(1, partition=1, lag=5, drain_s=None), row(2, lag=5, drain_s=3.0)]
    summary = told(tmp_path, [*rows, row(2, partition=1, lag=0, drain_s=None)])
    assert [point.drain_s for point in summary.topics] == [None, 3.0]


def test_what_nobody_knows_is_none(tmp_path: Path) -> None:
    (point,) = told(tmp_path, [row(1, lag=None)]).topics
    assert (point.lag_records, point.lag_bytes, point.lag_seconds, point.drain_s, point.skew) == (None,) * 5
    assert (point.records_per_s, point.bytes_per_s) == (0.0, 0.0)


def test_many_windows_become_few_points_of_the_worst_lag_and_the_mean_rate(tmp_path: Path) -> None:
    rows = [row(minute, lag=minute, records_per_s=float(minute)) for minute in range(10)]
    summary = told(tmp_path, rows, hours=24)
    assert summary.step_s == 300
    assert [(point.at_ms, point.lag_records, point.records_per_s) for point in summary.topics] == [
        (minute_ms(0), 4, 2.0),
        (minute_ms(5), 9, 7.0),
    ]


def test_a_step_that_is_longer_than_what_is_read_at_a_time_is_one_point(tmp_path: Path) -> None:
    rows = [row(minute, lag=9 - minute, records_per_s=float(minute)) for minute in range(7)]
    summary = told(tmp_path, [*rows, row(59, lag=1, records_per_s=1.0), row(60, lag=2)], hours=7 * 24)
    assert summary.step_s == 3600
    assert [(point.at_ms, point.lag_records, point.records_per_s) for point in summary.topics] == [
        (minute_ms(0), 9, 22 / 8),
        (minute_ms(60), 2, 0.0),
    ]


def test_copiers_add_up_in_their_flow(tmp_path: Path) -> None:
    mine: Row = {"records_per_s": 10.0, "bytes_per_s": 300.0, "append_failures": 1, "dropped": 2}
    other: Row = {"records_per_s": 20.0, "bytes_per_s": 100.0, "append_failures": 0, "dropped": 3}
    rows = [copier_row(1, appends={2: 98}, **mine), copier_row(1, "copier-2", appends={2: 1, 9: 1}, **other)]
    (flow,) = told(tmp_path, rows).flows
    assert (flow.copiers, flow.records_per_s, flow.bytes_per_s, flow.copier_skew) == (2, 30.0, 400.0, 1.5)
    assert (flow.append_failures, flow.dropped, flow.lag_records) == (1, 5, None)
    assert flow.append.p50 is not None
    assert flow.append.p99 is not None
    assert 1.0 < flow.append.p50 <= flow.append.p99 <= 2.0
    assert flow.copied == Latency()


def test_a_breach_lasts_from_its_first_window_to_the_first_that_is_well(tmp_path: Path) -> None:
    lags = {58: 5, 59: 12, 60: 30, 61: None, 62: 11, 63: 10, 64: 2}
    rows = [row(minute, lag_ms_max=None if lag is None else 1000 * lag) for minute, lag in lags.items()]
    rows += [row(minute, topic="late", lag_ms_max=20_000) for minute in (63, 64)]
    rows += [row(minute, topic="well", lag_ms_max=10_000) for minute in (63, 64)]
    summary = told(tmp_path, rows, rpo_s=10.0)
    assert summary.breaches == (
        Breach(
            flow="A->B",
            topic="t",
            since_ms=minute_ms(59),
            until_ms=minute_ms(63),
            worst_s=30.0,
            objective_s=10.0,
        ),
        Breach(flow="A->B", topic="late", since_ms=minute_ms(63), until_ms=None, worst_s=20.0, objective_s=10.0),
    )
    assert told(tmp_path / "again", rows).breaches == ()


def test_what_stood_still_is_told_by_reason(tmp_path: Path) -> None:
    still: Row = {"stalled_ms": 15_000, "stall_reason": "paused"}
    rows = [row(1, **still), row(1, partition=1, **still), row(3, **still)]
    rows += [row(2, stalled_ms=60_000, stall_reason="failed"), row(4)]
    summary = told(tmp_path, rows)
    found = [(one.reason, one.partitions, one.seconds, one.first_ms, one.last_ms) for one in summary.stalls]
    assert found == [
        ("failed", 1, 60.0, minute_ms(2), minute_ms(3)),
        ("paused", 2, 45.0, minute_ms(1), minute_ms(4)),
    ]
    assert [point.stalled for point in summary.topics] == [2, 1, 1, 0]


def test_nothing_says_nothing(tmp_path: Path) -> None:
    assert not has_anything(summarize(None, BASE_MS, BASE_MS + HOUR_MS))
    assert has_anything(told(tmp_path, [row(1)]))


@pytest.mark.parametrize(("hours", "step_s"), [(1, 30), (3, 60), (24, 300), (168, 3600), (5000, 3600)])
def test_a_step_divides_an_hour(hours: int, step_s: int) -> None:
    assert step_for(0, hours * HOUR_MS) == step_s
    assert all(3600 % step == 0 for step in STEPS_S)


def test_only_topics_that_were_furthest_behind_are_told_where_there_are_many(tmp_path: Path) -> None:
    rows = [row(1, topic=f"t{n}", lag=n, lag_ms_max=1000 * (n % 7), flow=flow) for n in range(20) for flow in FLOWS]
    rows += [row(1, topic="unknown", lag=None, flow=flow) for flow in FLOWS]
    found = History(f"file:{tmp_path}/lag")
    add(found, "g-0", rows)
    whole = summarize(found, BASE_MS, BASE_MS + HOUR_MS)
    some = summarize(found, BASE_MS, BASE_MS + HOUR_MS, most_topics=3)
    assert [(point.flow, point.topic) for point in some.topics] == [(f, t) for f in FLOWS for t in ("t13", "t19", "t6")]
    assert set(some.topics) < set(whole.topics)
    assert summarize(found, BASE_MS, BASE_MS + HOUR_MS, most_topics=0).topics == ()
    assert len(summarize(found, BASE_MS, BASE_MS + HOUR_MS, most_topics=99).topics) == len(whole.topics) == 42
    assert some.topic_numbers == whole.topic_numbers == dict.fromkeys(FLOWS, 21)
    assert some.flows == whole.flows
    assert {(point.lag_records, point.lag_seconds) for point in some.flows} == {(190, 6.0)}


def test_one_flow_of_several_is_summed_up_alone(tmp_path: Path) -> None:
    found = History(f"file:{tmp_path}/lag")
    add(found, "g-0", [row(1, lag=1, lag_ms_max=9000, stalled_ms=5, flow=flow) for flow in FLOWS])
    rpo_s = dict.fromkeys(FLOWS, 1.0)
    summary = summarize(found, BASE_MS, BASE_MS + HOUR_MS, flow="A->C", rpo_s={"A->C": 1.0})
    assert {one.flow for one in summary.flows} == {one.flow for one in summary.breaches} == {"A->C"}
    assert {one.flow for one in summary.topics} == {one.flow for one in summary.stalls} == {"A->C"}
    assert summary.topic_numbers == {"A->C": 1}
    assert len(summarize(found, BASE_MS, BASE_MS + HOUR_MS, rpo_s=rpo_s).breaches) == 2

"""Rows of partitions from a status, and the format of sizes and durations."""

import msgspec
import pytest

from actors.observability.lagging import (
    NO_ANSWER,
    NO_DISCOVERY,
    bytes_text,
    flows_unknown,
    lag_rows,
    records_text,
    seconds_text,
)
from tests.unit.actors.telemetry.statuses import copier, flow_proof, flow_status, lane, mirror_status, unowned

STATUS = mirror_status(
    lane("u", 0, at=7, end=7),
    lane("t", 1, at=95, end=100, lag_bytes=-1, reason="paused", state="paused"),
    lane("t", 0, at=90, end=100, behind_ms=3000, lag_bytes=500),
    unowned("t", 2, flow="A->C"),
    copiers=[copier()],
)


def test_rows_tell_lag_owner_and_reason_in_order() -> None:
    rows = lag_rows(STATUS)
    assert [(row.flow, row.topic, row.partition) for row in rows] == [
        ("A->B", "t", 0),
        ("A->B", "t", 1),
        ("A->B", "u", 0),
        ("A->C", "t", 2),
    ]
    first, paused, quiet, nobody = rows
    assert (first.lag_records, first.lag_bytes, first.lag_seconds, first.owner) == (10, 500, 3.0, "copier-1")
    assert (first.target_topic, first.set_id, first.source_next, first.source_end) == ("A.t", "A->B/000", 90, 100)
    assert (paused.state, paused.why, paused.lag_bytes) == ("paused", "paused", None)
    assert (quiet.lag_records, quiet.lag_bytes, quiet.lag_seconds, quiet.why) == (0, 0, 0.0, "")
    assert (nobody.lag_records, nobody.lag_bytes, nobody.lag_seconds, nobody.owner) == (None, None, None, "")
    assert nobody.why == "waits for a copier"


def test_a_flow_without_partitions_is_unknown_until_its_topics_were_discovered() -> None:
    empty = flow_status("A->B", lanes=0, unknown_lanes=0)
    away = flow_status("A->C", lanes=0, unknown_lanes=0, discovered=False, waiting_for="cluster 'A'")
    silent = flow_status("A->D", lanes=0, unknown_lanes=0, discovered=False)
    adopted = flow_status("A->E", lanes=2, discovered=False)
    status = mirror_status(flows=[empty, away, silent, adopted])
    assert flows_unknown(status) == {"A->C": "cluster 'A'", "A->D": NO_DISCOVERY}
    assert (flows_unknown(status, "A->B"), flows_unknown(status, "A->C")) == ({}, {"A->C": "cluster 'A'"})


def test_rows_of_a_source_that_is_silent_have_no_lag_but_what_it_was_and_when() -> None:
    status = mirror_status(
        lane("t", 0, at=90, end=100, behind_ms=20_000, heard_ms_ago=12_000),
        lane("t", 1, at=7, end=7, heard_ms_ago=12_000),
        lane("t", 2, at=7, end=7, heard_ms_ago=400),
        unowned("t", 3),
    )
    late, quiet, fresh, nobody = lag_rows(status)
    for row in (late, quiet, nobody):
        assert (row.lag_records, row.lag_bytes, row.lag_seconds) == (None, None, None)
    assert (late.heard_lag_records, late.heard_lag_seconds, late.heard_seconds_ago) == (10, 8.0, 12.0)
    assert (quiet.heard_lag_records, quiet.heard_lag_seconds, quiet.heard_seconds_ago) == (0, 0.0, 12.0)
    assert (fresh.lag_records, fresh.heard_lag_records, fresh.heard_seconds_ago) == (0, 0, 0.4)
    assert (nobody.heard_lag_records, nobody.heard_lag_seconds, nobody.heard_seconds_ago) == (None, None, None)
    assert [(row.state, row.why) for row in (late, quiet, fresh)] == [("silent", NO_ANSWER)] * 2 + [("copying", "")]
    assert [records_text(row) for row in (late, quiet, fresh, nobody)] == [
        "unknown (was 10 12.0 s ago)",
        "unknown (was 0 12.0 s ago)",
        "0",
        "unknown",
    ]


def test_a_partition_whose_source_broker_is_gone_is_silent_and_says_which_broker() -> None:
    gone = msgspec.structs.replace(
        lane("t", 0, at=7, end=7, heard_ms_ago=3000, reason="no connection to source broker 1"), source_reached=False
    )
    (row,) = lag_rows(mirror_status(gone))
    assert (row.lag_records, row.state, row.why) == (None, "silent", "no connection to source broker 1")
    assert records_text(row) == "unknown (was 0 3.0 s ago)"


def test_rows_tell_how_far_the_copy_is_proven() -> None:
    status = mirror_status(lane("t", 0), lane("t", 9), lane("t", 0, flow="A->C"), proofs={"A->B": flow_proof(at=60)})
    assert [(row.flow, row.partition, row.proven_to) for row in lag_rows(status)] == [
        ("A->B", 0, 60),
        ("A->B", 9, None),
        ("A->C", 0, None),
    ]


def test_rows_of_one_flow_or_of_some_topics() -> None:
    assert {row.flow for row in lag_rows(STATUS, "A->C")} == {"A->C"}
    assert [row.topic for row in lag_rows(STATUS, "A->B", ["u"])] == ["u"]
    assert lag_rows(STATUS, "A->B", ["x"]) == []


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * 1024**2, "5.0 MiB"),
        (3 * 1024**4, "3.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 min 0 s"),
        (3599.4, "59 min 59 s"),
        (3600.0, "1 h 0 min"),
        (86_399.0, "23 h 59 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text

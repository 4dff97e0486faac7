"""The rows that a proof leaves, the combined result of many proofs, and the rows that mean the same as one."""

from typing import Any

import pytest

from engine.jobs.proof.model import DifferenceKind, LaneReport, ProofReport, ProofVerdict, RecordDifference
from engine.jobs.proof.tables.rows import difference_rows, fold, joined, lane_rows
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from policies.model import FlowName


def row(low: int, high: int, differences: int = 0, **other: Any) -> dict[str, Any]:
    made = {
        "flow": "A->B",
        "topic": "t",
        "partition": 0,
        "source_id": "s",
        "target_id": "t",
        "generation": 3,
        "verdict": "whole",
    }
    return {**made, "proven_from": low, "proven_to": high, "differences": differences, **other}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], None),
        ([row(0, 10)], (0, 10)),
        ([row(0, 10), row(0, 25)], (0, 25)),
        ([row(0, 10), row(10, 25)], (0, 25)),
        ([row(10, 25), row(0, 12)], (0, 25)),
        ([row(0, 100), row(200, 210)], (0, 100)),
        ([row(0, 10), row(200, 250)], (200, 250)),
        ([row(0, 100), row(0, 40, differences=1)], (0, 40)),
        ([row(0, 100), row(0, 0, differences=1)], None),
        ([row(0, 100), row(-1, -1, verdict="unproven")], (0, 100)),
        ([row(5, 5)], None),
    ],
)
def test_what_runs_say_together(rows: list[dict[str, Any]], expected: tuple[int, int] | None) -> None:
    assert fold(rows).get(("t", 0, "s", "t", 3)) == expected


def test_other_topics_and_generations_are_other_lanes() -> None:
    rows = [row(0, 9), row(0, 8, source_id="x"), row(0, 7, target_id="x"), row(0, 6, generation=4)]
    assert sorted(one.source_to for one in fold(rows).values()) == [6, 7, 8, 9]


def read(low: int, high: int, since: int = 0, **other: Any) -> dict[str, Any]:
    """Make a row of a run that read [low, high)."""
    counts = dict.fromkeys(("records", "payload_bytes", "without_record", "not_comparable"), high - low)
    return row(
        since, high, source_from=low, source_to=high, target_from=low, target_to=high, note="", **counts, **other
    )


def test_rows_that_follow_one_another_are_one_and_say_the_same() -> None:
    rows = [read(0, 10), read(10, 30), read(10, 30, topic="u"), read(30, 31)]
    (one, other) = joined(rows)
    assert (one["source_from"], one["source_to"], one["target_from"], one["records"]) == (0, 31, 0, 31)
    assert other["topic"] == "u"
    assert fold(joined(rows)) == fold(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [read(0, 10), read(20, 30)],
        [read(0, 10), {**read(10, 30), "differences": 1}],
        [{**read(0, 10), "verdict": "unproven"}, read(10, 30)],
        [read(0, 10), read(10, 30, since=10)],
        [read(0, 10), {**read(10, 30), "note": "cut"}],
        [read(0, 10), read(10, 30, generation=4)],
        [read(0, 10), read(10, 30, flow="B->A")],
    ],
)
def test_rows_that_say_different_things_stay_apart(rows: list[dict[str, Any]]) -> None:
    assert len(joined(rows)) == 2
    assert fold(joined(rows)) == fold(rows)


def test_rows_of_earlier_versions_have_no_counts_of_refused_records() -> None:
    """A table gets the columns with the next proof; until then it is folded without them."""
    old, new = [read(0, 10), read(10, 30)], [read(30, 40), read(40, 50)]
    for row in new:
        row |= {"left_out": 2, "replayed": 1}
    (one,) = joined(old)
    assert "left_out" not in one
    (one,) = joined([{**row, "left_out": None, "replayed": None} for row in old] + new)
    assert (one["left_out"], one["replayed"], one["records"]) == (4, 2, 50)


def test_a_proof_leaves_rows_of_every_column() -> None:
    lane = LaneReport(topic="t", partition=2, target_topic="A.t", proven_to=9, verdict=ProofVerdict.DIFFERS, left_out=7)
    found = RecordDifference(
        topic="t",
        partition=2,
        source_offset=9,
        target_topic="A.t",
        target_offset=11,
        kind=DifferenceKind.ALTERED,
        what="key",
    )
    report = ProofReport(
        run="r1",
        flow=FlowName("A", "B"),
        began_ms=86_400_000,
        took_s=1.0,
        read_s=1.0,
        cores=1,
        lanes=(lane,),
        differences=(found,),
    )
    ((of_lane,), (difference,)) = lane_rows(report), difference_rows(report)
    assert of_lane.keys() == {one.name for one in PROOF_LANES.columns}
    assert of_lane["left_out"] == 7
    assert difference.keys() == {one.name for one in PROOF_DIFFERENCES.columns}
    assert (of_lane["day"], of_lane["flow"], of_lane["run"], of_lane["verdict"]) == (
        "1970-01-02",
        "A->B",
        "r1",
        "differs",
    )
    assert (difference["kind"], difference["target_offset"], difference["began_ms"]) == ("altered", 11, 86_400_000)

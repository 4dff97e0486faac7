"""What earlier proofs say together, and the tables that they are kept in."""

from typing import TYPE_CHECKING, Any

import pytest

from engine.jobs.proof_terms import Difference, Kind, LaneReport, ProofReport, Verdict
from engine.jobs.storage import Storage
from policies.model import FlowName

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def row(low: int, high: int, differences: int = 0, **other: Any) -> dict[str, Any]:
    made = {"topic": "t", "partition": 0, "source_id": "s", "target_id": "t", "generation": 3, "verdict": "whole"}
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
    from engine.jobs.proof_store import fold

    assert fold(rows).get(("t", 0, "s", "t", 3)) == expected


def test_other_topics_and_generations_are_other_lanes() -> None:
    from engine.jobs.proof_store import fold

    rows = [row(0, 9), row(0, 8, source_id="x"), row(0, 7, target_id="x"), row(0, 6, generation=4)]
    assert sorted(one.source_to for one in fold(rows).values()) == [6, 7, 8, 9]


def report(run: str, began_ms: int, proven_to: int) -> ProofReport:
    lane = LaneReport(
        topic="t",
        partition=2,
        target_topic="A.t",
        source_id="s",
        target_id="u",
        generation=7,
        proven_from=3,
        proven_to=proven_to,
        differences=1,
        verdict=Verdict.DIFFERS,
    )
    found = Difference(
        topic="t", partition=2, source_offset=9, target_topic="A.t", target_offset=9, kind=Kind.ALTERED, what="key"
    )
    return ProofReport(
        run=run,
        flow=FlowName("A", "B"),
        began_ms=began_ms,
        took_s=1.0,
        read_s=1.0,
        cores=2,
        lanes=(lane,),
        differences=(found,),
    )


def test_tables_are_appended_to_and_remembered(spark: "SparkSession", tmp_path: "Path") -> None:
    from engine.jobs.proof_store import proven, store

    folder = Storage.of_folder(tmp_path).path("proofs", "A->B")
    assert proven(spark, folder) == {}
    store(spark, folder, report("r1", 1, 50))
    store(spark, folder, report("r2", 2, 9))
    assert proven(spark, folder) == {("t", 2, "s", "u", 7): (3, 9)}
    (first, second) = spark.read.parquet(f"{folder}/differences").orderBy("began_ms").collect()
    assert (first["kind"], first["what"], first["source_offset"]) == ("altered", "key", 9)
    assert second["began_ms"] == 2

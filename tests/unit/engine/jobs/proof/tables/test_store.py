"""The combined result of earlier proofs, and the tables that store them."""

from typing import TYPE_CHECKING, Any

import pytest

from engine.config.storage import Storage
from engine.jobs.proof.model import DifferenceKind, LaneReport, ProofReport, ProofVerdict, RecordDifference
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
    from engine.jobs.proof.tables.rows import fold

    assert fold(rows).get(("t", 0, "s", "t", 3)) == expected


def test_other_topics_and_generations_are_other_lanes() -> None:
    from engine.jobs.proof.tables.rows import fold

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
        verdict=ProofVerdict.DIFFERS,
    )
    found = RecordDifference(
        topic="t",
        partition=2,
        source_offset=9,
        target_topic="A.t",
        target_offset=9,
        kind=DifferenceKind.ALTERED,
        what="key",
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
    from engine.jobs.proof.tables.store import proven, store

    folder = Storage.of_folder(tmp_path).path("proofs", "A->B")
    assert proven(spark, folder) == {}
    store(spark, folder, report("r1", 1, 50))
    store(spark, folder, report("r2", 2, 9))
    assert proven(spark, folder) == {("t", 2, "s", "u", 7): (3, 9)}
    (first, second) = spark.read.parquet(f"{folder}/differences").orderBy("began_ms").collect()
    assert (first["kind"], first["what"], first["source_offset"]) == ("altered", "key", 9)
    assert second["began_ms"] == 2


def test_spark_and_this_process_read_what_the_other_one_kept(spark: "SparkSession", tmp_path: "Path") -> None:
    from engine.jobs.proof.tables import files as proof_files
    from engine.jobs.proof.tables import store as proof_store

    folder = Storage.of_folder(tmp_path).path("proofs", "A->B")
    proof_store.store(spark, folder, report("r1", 1, 50))
    assert proof_files.proven(folder) == {("t", 2, "s", "u", 7): (3, 50)}
    proof_files.store(folder, report("r2", 2, 9))
    assert proof_files.proven(folder) == proof_store.proven(spark, folder) == {("t", 2, "s", "u", 7): (3, 9)}
    for table in ("lanes", "differences"):
        rows = [row.asDict() for row in spark.read.parquet(f"{folder}/{table}/*").orderBy("began_ms").collect()]
        assert rows[0].keys() == rows[1].keys()
        same = [{name: one[name] for name in one if name not in ("run", "began_ms", "proven_to")} for one in rows]
        assert same[0] == same[1]
    proof_store.tidy(spark, folder, most_runs=1)
    assert len(list((tmp_path / "proofs" / "A-%3EB" / "lanes").iterdir())) == 1
    assert proof_files.proven(folder) == {("t", 2, "s", "u", 7): (3, 9)}


def read(low: int, high: int, since: int = 0, **other: Any) -> dict[str, Any]:
    """Make a row of a run that read [low, high)."""
    counts = dict.fromkeys(("records", "payload_bytes", "without_record", "not_comparable"), high - low)
    return row(
        since, high, source_from=low, source_to=high, target_from=low, target_to=high, note="", **counts, **other
    )


def test_rows_that_follow_one_another_are_one_and_say_the_same() -> None:
    from engine.jobs.proof.tables.rows import fold, joined

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
    ],
)
def test_rows_that_say_different_things_stay_apart(rows: list[dict[str, Any]]) -> None:
    from engine.jobs.proof.tables.rows import fold, joined

    assert len(joined(rows)) == 2
    assert fold(joined(rows)) == fold(rows)


def test_many_runs_become_one(spark: "SparkSession", tmp_path: "Path") -> None:
    from engine.jobs.proof.tables.store import proven, store, tidy

    folder = Storage.of_folder(tmp_path).path("proofs", "A->B")
    for number in range(4):
        store(spark, folder, report(f"{number:013d}-a", number, 50 + number))
    tidy(spark, folder, most_runs=4)
    lanes = tmp_path / "proofs" / "A-%3EB" / "lanes"
    assert len(list(lanes.iterdir())) == 4
    tidy(spark, folder, most_runs=3)
    assert len(list(lanes.iterdir())) == 1
    assert proven(spark, folder) == {("t", 2, "s", "u", 7): (3, 53)}
    assert spark.read.parquet(f"{folder}/lanes/*").count() == 4, "what differs is kept as it was told"

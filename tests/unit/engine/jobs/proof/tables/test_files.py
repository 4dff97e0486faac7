"""The tables of proofs, written and read without Spark."""

from pathlib import Path

import pytest

from engine.config.storage import Storage
from engine.jobs.proof.model import (
    DifferenceKind,
    LaneReport,
    ProofReport,
    ProofStorageUnreadable,
    ProofVerdict,
    Proven,
    RecordDifference,
)
from engine.jobs.proof.tables.files import proven, store
from policies.model import FlowName

KEY = ("t", 2, "s", "u", 7)


def report(run: str, began_ms: int, proven_to: int, *found: RecordDifference) -> ProofReport:
    lane = LaneReport(
        topic="t",
        partition=2,
        target_topic="A.t",
        source_id="s",
        target_id="u",
        generation=7,
        proven_from=3,
        proven_to=proven_to,
        differences=len(found),
        verdict=ProofVerdict.DIFFERS if found else ProofVerdict.WHOLE,
    )
    flow = FlowName("A", "B")
    return ProofReport(
        run=run, flow=flow, began_ms=began_ms, took_s=1, read_s=1, cores=1, lanes=(lane,), differences=found
    )


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return Storage.of_folder(tmp_path / "kept").path("proofs", "A->B")


def test_nothing_is_proven_before_the_first_run(folder: str) -> None:
    assert proven(folder) == {}


def test_runs_add_up(folder: str) -> None:
    store(folder, report("0002-b", 2, 90))
    store(folder, report("0001-a", 1, 40))
    assert proven(folder) == {KEY: Proven(3, 90)}


def test_the_newest_run_counts_last(folder: str) -> None:
    one = RecordDifference(
        topic="t",
        partition=2,
        source_offset=40,
        target_topic="A.t",
        target_offset=41,
        kind=DifferenceKind.ALTERED,
        what="key",
    )
    store(folder, report("0002-b", 2, 40, one))
    store(folder, report("0001-a", 1, 90))
    assert proven(folder) == {KEY: Proven(3, 40)}
    root = Path(folder.removeprefix("file:"))
    assert sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()) == [
        f"{name}/{part}"
        for name in ("differences/run=0002-b", "lanes/run=0001-a", "lanes/run=0002-b")
        for part in ("_SUCCESS", "part-00000.parquet")
    ]


def test_what_is_being_written_is_passed_over(folder: str) -> None:
    store(folder, report("0001-a", 1, 40))
    lanes = Path(folder.removeprefix("file:")) / "lanes"
    for hidden in ("run=0002-b/_part-00000.parquet", "run=0002-b/_temporary/0/part-0.parquet", "run=0001-a/.x.crc"):
        path = lanes / hidden
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    assert proven(folder) == {KEY: Proven(3, 40)}


def test_a_storage_that_is_of_no_use_is_named(folder: str) -> None:
    store(folder, report("0001-a", 1, 40))
    lanes = Path(folder.removeprefix("file:")) / "lanes"
    (lanes / "run=0001-a" / "part-00001.parquet").write_bytes(b"no table")
    with pytest.raises(ProofStorageUnreadable, match="kept/proofs/A-%3EB cannot be read or written from this process"):
        proven(folder)
    (lanes / "run=0002-b").write_text("in the way")
    with pytest.raises(ProofStorageUnreadable, match="A-%3EB"):
        store(folder, report("0002-b", 2, 50))

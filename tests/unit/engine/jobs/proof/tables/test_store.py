"""The tables of proofs: what earlier proofs found whole, and few files of many."""

from pathlib import Path

import pytest

from engine.config.storage import Storage
from engine.jobs.proof.model import (
    DifferenceKind,
    LaneReport,
    ProofReport,
    ProofVerdict,
    Proven,
    RecordDifference,
)
from engine.jobs.proof.tables.store import ProofStore
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from engine.jobs.tables.errors import TableDamaged, TableUnreachable
from engine.jobs.tables.reading import read
from engine.jobs.tables.table import Table
from policies.model import FlowName

FLOW = FlowName("A", "B")
KEY = ("t", 2, "s", "u", 7)
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def report(run: str, began_ms: int, proven_to: int, *found: RecordDifference, flow: FlowName = FLOW) -> ProofReport:
    lane = LaneReport(
        topic="t",
        partition=2,
        target_topic="A.t",
        source_id="s",
        target_id="u",
        generation=7,
        source_from=proven_to - 10,
        source_to=proven_to,
        proven_from=3,
        proven_to=proven_to,
        records=10,
        differences=len(found),
        verdict=ProofVerdict.DIFFERS if found else ProofVerdict.WHOLE,
    )
    return ProofReport(
        run=run, flow=flow, began_ms=began_ms, took_s=1, read_s=1, cores=1, lanes=(lane,), differences=found
    )


def difference(source_offset: int) -> RecordDifference:
    return RecordDifference(
        topic="t",
        partition=2,
        source_offset=source_offset,
        target_topic="A.t",
        target_offset=41,
        kind=DifferenceKind.ALTERED,
        what="key",
    )


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of_folder(tmp_path / "kept")


def rows_in(storage: Storage, name: str = "lanes") -> list[tuple[int, int]]:
    """Return when each row began, and what it says of the source's offsets."""
    spec, column = {"lanes": (PROOF_LANES, "source_to"), "differences": (PROOF_DIFFERENCES, "source_offset")}[name]
    table = Table(storage.path("tables", spec.name), spec)
    return [(row["began_ms"], row[column]) for day in read(table) for row in day.to_pylist()]


def files_in(storage: Storage) -> dict[str, int]:
    table = Table(storage.path("tables", PROOF_LANES.name), PROOF_LANES)
    return {day: len(files) for day, files in table.snapshot().partitions().items()}


def test_nothing_is_proven_before_the_first_run(storage: Storage) -> None:
    assert ProofStore(storage).proven(FLOW) == {}


def test_runs_add_up_and_other_flows_do_not(storage: Storage) -> None:
    store = ProofStore(storage)
    store.store(report("0002-b", 2, 90))
    store.store(report("0001-a", 1, 40))
    store.store(report("0003-c", 3, 99, flow=FlowName("B", "A")))
    assert store.proven(FLOW) == ProofStore(storage).proven(FLOW) == {KEY: Proven(3, 90)}


def test_the_newest_run_counts_last_in_a_day_and_over_days(storage: Storage) -> None:
    store = ProofStore(storage)
    store.store(report("0002-b", 2, 40, difference(40)))
    store.store(report("0001-a", 1, 90))
    assert store.proven(FLOW) == {KEY: Proven(3, 40)}
    store.store(report("0005-d", 2 * DAY_MS, 30, difference(30)))
    store.store(report("0004-c", DAY_MS, 95))
    assert store.proven(FLOW) == {KEY: Proven(3, 30)}
    assert rows_in(storage, "differences") == [(2, 40), (2 * DAY_MS, 30)]


def test_a_proof_without_differences_makes_no_table_of_them(storage: Storage) -> None:
    ProofStore(storage).store(report("0001-a", 1, 40))
    folder = storage.folder("tables")
    assert folder is not None
    assert [one.name for one in folder.iterdir()] == ["proof_lanes"]


def test_past_days_become_one_file_of_few_rows_that_mean_the_same(storage: Storage) -> None:
    store = ProofStore(storage)
    for number in range(1, 5):
        store.store(report(f"{number}", number, 10 * number))
    store.store(report("5", 5, 60))  # does not follow
    store.store(report("6", 6, 70, difference(61)))
    store.store(report("7", DAY_MS, 80))
    known = store.proven(FLOW)
    store.tidy(DAY_MS + 1)
    assert files_in(storage) == {"1970-01-01": 1, "1970-01-02": 1}
    assert rows_in(storage) == [(4, 40), (5, 60), (6, 70), (DAY_MS, 80)]
    assert store.proven(FLOW) == known == {KEY: Proven(3, 80)}


def test_it_tidies_once_an_hour(storage: Storage) -> None:
    store = ProofStore(storage)
    store.tidy(DAY_MS)  # nothing yet
    for number in (1, 2):
        store.store(report(f"{number}", number, 10 * number))
    store.tidy(DAY_MS + HOUR_MS - 1)
    assert files_in(storage) == {"1970-01-01": 2}
    store.tidy(DAY_MS + HOUR_MS)
    assert files_in(storage) == {"1970-01-01": 1}


def test_a_storage_that_is_of_no_use_is_named(storage: Storage) -> None:
    store = ProofStore(storage)
    store.store(report("0001-a", 1, 40))
    folder = storage.folder("tables", "proof_lanes")
    assert folder is not None
    for path in folder.glob("day=*/*.parquet"):
        path.write_bytes(b"no table")
    with pytest.raises(TableDamaged, match="kept/tables/proof_lanes"):
        store.proven(FLOW)
    other = Storage.of_folder(folder.parent.parent / "file")
    (folder.parent.parent / "file").write_text("in the way")
    with pytest.raises(TableUnreachable, match="file/tables/proof_lanes"):
        ProofStore(other).store(report("0002-b", 2, 50))

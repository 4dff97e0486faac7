"""The proofs of earlier versions: what they found whole stays known, and their differences too."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.config.storage import Storage
from engine.jobs.proof.model import Proven
from engine.jobs.proof.tables.store import ProofStore
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.reading import read
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_proofs import OldProofs
from policies.model import FlowName

OLD = OldProofs()
FLOW = FlowName("A", "B")
KEY = ("t", 0, "s", "u", 1)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of_folder(tmp_path / "store")


def write_old(storage: Storage, flow: str, folder: str, spec: TableSpec, run: str, *rows: dict[str, Any]) -> None:
    """Write rows as Spark did in the earlier version."""
    path = storage.folder("proofs", flow, folder, f"run={run}")
    assert path is not None
    path.mkdir(parents=True)
    columns = [field for field in arrow_schema(spec) if field.name not in ("flow", "day")]
    made = [{"run": run, "topic": "t", "partition": 0, **row} for row in rows]
    pq.write_table(pa.Table.from_pylist(made, schema=pa.schema(columns)), path / "part-00000-abc.snappy.parquet")
    (path / "_SUCCESS").touch()


def lane(began_ms: int, proven_to: int, differences: int = 0) -> dict[str, Any]:
    ids = {"source_id": "s", "target_id": "u", "generation": 1, "verdict": "differs" if differences else "whole"}
    return {"began_ms": began_ms, "proven_from": 0, "proven_to": proven_to, "differences": differences, **ids}


def fill(storage: Storage) -> None:
    write_old(storage, "A->B", "lanes", PROOF_LANES, "2-b", lane(90_000_000, 40, 1))
    write_old(storage, "A->B", "lanes", PROOF_LANES, "1-a", lane(1, 30))
    change = {"source_offset": 40, "target_offset": 41, "kind": "altered", "what": "key"}
    write_old(storage, "A->B", "differences", PROOF_DIFFERENCES, "2-b", {"began_ms": 90_000_000, **change})
    write_old(storage, "B->A", "lanes", PROOF_LANES, "3-c", lane(3, 70))


def rows_of(storage: Storage, spec: TableSpec) -> list[dict[str, Any]]:
    return [row for rows in read(Table(storage.path("tables", spec.name), spec)) for row in rows.to_pylist()]


def test_what_was_proven_stays_known_of_each_flow(storage: Storage) -> None:
    assert OLD.places(storage) == []
    fill(storage)
    places = OLD.places(storage)
    assert places == [storage.path("proofs", "A->B"), storage.path("proofs", "B->A")]
    assert [OLD.convert(storage, place).rows for place in places] == [2, 1]
    assert ProofStore(storage).proven(FLOW) == {KEY: Proven(0, 40)}
    assert ProofStore(storage).proven(FlowName("B", "A")) == {KEY: Proven(0, 70)}
    assert [(row["flow"], row["day"], row["run"]) for row in rows_of(storage, PROOF_LANES)] == [
        ("A->B", "1970-01-01", "1-a"),
        ("B->A", "1970-01-01", "3-c"),
        ("A->B", "1970-01-02", "2-b"),
    ]
    (difference,) = rows_of(storage, PROOF_DIFFERENCES)
    assert (difference["flow"], difference["kind"], difference["source_offset"]) == ("A->B", "altered", 40)
    assert OLD.places(storage) == []


def test_an_interrupted_conversion_adds_every_row_once(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(storage)
    place = storage.path("proofs", "A->B")
    with monkeypatch.context() as patched:
        patched.setattr("engine.jobs.upgrade.old_files.OldFiles.mark", lambda *_: pytest.fail("interrupted"))
        with pytest.raises(pytest.fail.Exception):
            OLD.convert(storage, place)
    assert place in OLD.places(storage)
    assert OLD.convert(storage, place).rows == 0
    assert OLD.places(storage) == [storage.path("proofs", "B->A")]
    write_old(storage, "A->B", "lanes", PROOF_LANES, "4-d", lane(90_000_001, 50))
    assert place in OLD.places(storage), "a mirror of an earlier version still runs"
    assert OLD.convert(storage, place).rows == 1
    assert (len(rows_of(storage, PROOF_LANES)), len(rows_of(storage, PROOF_DIFFERENCES))) == (3, 1)

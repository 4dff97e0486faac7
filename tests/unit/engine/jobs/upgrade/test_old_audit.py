"""The audit trail of earlier versions: every row is in the table once, also after an interruption."""

import asyncio
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.config.storage import Storage
from engine.flow.config_sync.audit import AuditRow, only_batch
from engine.jobs.audit.store import TableAudit
from engine.jobs.tables.catalog import AUDIT
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_audit import OldAudit
from engine.jobs.upgrade.old_files import Added, OldFileDamaged, OldFiles
from tests.unit.engine.jobs.audit.test_store import DAY_MS, row

OLD = OldAudit()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of_folder(tmp_path / "store")


def write_old(storage: Storage, day: str, name: str, *rows: AuditRow) -> Path:
    """Write rows as the earlier version did."""
    folder = storage.folder("audit", day)
    assert folder is not None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist([msgspec.structs.asdict(one) for one in rows]), path)
    return path


def fill(storage: Storage) -> None:
    write_old(storage, "1970-01-01", "5-x-2", row("t", 5), row("u", 7, before="1", after="2"))
    write_old(storage, "1970-01-01", "5-x-3", row("t", 5), row("v", 6))  # nobody knew that the first was written
    write_old(storage, "1970-01-03", "merged-x", row("w", 2 * DAY_MS, detail="no right"))


EXPECTED = [row("t", 5), row("v", 6), row("u", 7, before="1", after="2"), row("w", 2 * DAY_MS, detail="no right")]


def test_every_row_is_in_the_table_once(storage: Storage) -> None:
    assert OLD.places(storage) == []
    fill(storage)
    asyncio.run(TableAudit(storage).write(only_batch([row("new", 3 * DAY_MS)])))
    assert OLD.places(storage) == [storage.path("audit")]
    assert OLD.convert(storage, storage.path("audit")) == Added(rows=4)
    assert TableAudit(storage).read() == [*EXPECTED, row("new", 3 * DAY_MS)]
    assert OLD.places(storage) == []
    days = Table(storage.path("tables", "audit"), AUDIT).snapshot().partitions()
    assert list(days) == ["1970-01-01", "1970-01-03", "1970-01-04"]


def test_an_interrupted_conversion_goes_on_where_it_was(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(storage)
    append, days = Table.append, list[str]()

    def interrupted(self: Table, rows: pa.Table, batch: Batch) -> bool:
        days.append(batch.writer[:30])
        if len(days) == 2:
            raise KeyboardInterrupt
        return append(self, rows, batch)

    monkeypatch.setattr(Table, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        OLD.convert(storage, storage.path("audit"))
    assert OLD.places(storage) == [storage.path("audit")]
    assert OLD.convert(storage, storage.path("audit")) == Added(rows=1)
    assert TableAudit(storage).read() == EXPECTED
    assert days == [f"conversion of audit 1970-01-0{day}" for day in (1, 3, 3)]


def test_rows_that_a_mirror_of_an_earlier_version_still_writes_are_added_too(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the mark, while a conversion waits to continue, and after it."""
    fill(storage)
    with monkeypatch.context() as patch:
        patch.setattr(OldFiles, "mark", lambda *_: pytest.fail("interrupted"))
        with pytest.raises(pytest.fail.Exception):
            OLD.convert(storage, storage.path("audit"))
    write_old(storage, "1970-01-03", "late", row("w", 2 * DAY_MS, detail="no right"), row("x", 2 * DAY_MS + 1))
    assert OLD.convert(storage, storage.path("audit")) == Added(rows=1)
    later = write_old(storage, "1970-01-03", "later", row("y", 2 * DAY_MS + 2))
    assert OLD.places(storage) == [storage.path("audit")]
    assert OLD.convert(storage, storage.path("audit")) == Added(rows=1)
    assert OLD.places(storage) == []
    later.rename(later.with_name("merged-later.parquet"))
    assert OLD.convert(storage, storage.path("audit")) == Added()
    assert TableAudit(storage).read() == [*EXPECTED, row("x", 2 * DAY_MS + 1), row("y", 2 * DAY_MS + 2)]


def test_a_file_that_is_gone_when_it_is_read_is_counted(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(storage)
    paths = OldFiles.paths
    monkeypatch.setattr(OldFiles, "paths", lambda self: [*paths(self), "1970-01-01/gone.parquet"])
    assert OLD.convert(storage, storage.path("audit")) == Added(rows=4, missing=1)
    assert OLD.places(storage) == []


def test_a_folder_with_the_name_of_no_day_is_converted_by_the_times_of_its_rows(storage: Storage) -> None:
    write_old(storage, "2026-99-99", "1", row("t", 5))
    assert OLD.convert(storage, storage.path("audit")) == Added(rows=1)
    assert TableAudit(storage).read() == [row("t", 5)]


def test_a_broken_file_is_named_and_leaves_the_trail_to_convert(storage: Storage) -> None:
    fill(storage)
    broken = write_old(storage, "1970-01-02", "9", row("x", DAY_MS))
    broken.write_bytes(b"no parquet")
    with pytest.raises(OldFileDamaged, match=r"1970-01-02/9\.parquet"):
        OLD.convert(storage, storage.path("audit"))
    broken.unlink()
    OLD.convert(storage, storage.path("audit"))
    assert TableAudit(storage).read() == EXPECTED

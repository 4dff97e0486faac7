"""The audit trail as a table: written batches are read once, from an instant on; past days become few files and go."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable

from engine.config.storage import Storage
from engine.flow.config_sync.audit import AuditBatch, AuditFailed, AuditRow, only_batch
from engine.jobs.audit.store import TableAudit

DAY_MS = 86_400_000


def row(topic: str, at_ms: int, **more: str) -> AuditRow:
    plain = AuditRow(
        at_ms=at_ms, run=f"{at_ms}-x", flow="A->B", who="ann", topic=topic, target=f"A.{topic}", change="set_config"
    )
    return msgspec.structs.replace(plain, **more)


@pytest.fixture
def trail(tmp_path: Path) -> TableAudit:
    return TableAudit(Storage.of_folder(tmp_path / "store"))


def write(trail: TableAudit, *rows: AuditRow) -> None:
    asyncio.run(trail.write(only_batch(rows)))


def days(tmp_path: Path) -> list[str]:
    """Return the day of each file that counts."""
    table = DeltaTable(tmp_path / "store" / "tables" / "audit")
    return sorted(Path(path).parent.name.removeprefix("day=") for path in table.file_uris())


def test_what_was_written_is_read_in_order(trail: TableAudit) -> None:
    later, sooner = row("t", 2 * DAY_MS, before="1", after="5ü"), row("u", 5, outcome="failed", detail="no right")
    write(trail, later)
    write(trail, sooner)
    assert trail.read() == [sooner, later]


def test_a_batch_that_comes_again_changes_nothing_and_equal_rows_of_others_stay(trail: TableAudit) -> None:
    batches = [AuditBatch("w", number, (row("t", number),)) for number in (0, 1)]
    for batch in (*batches, batches[1], AuditBatch("other", 0, (row("t", 0),))):
        asyncio.run(trail.write(batch))
    assert trail.read() == [row("t", 0), row("t", 0), row("t", 1)]


def test_a_topic_is_found_by_its_name_on_either_side_and_a_flow_by_its(trail: TableAudit) -> None:
    mine, other = row("t", 5), row("u", 6, flow="B->A")
    write(trail, mine, other)
    assert trail.read(about="t") == trail.read(about="A.t") == trail.read(flow="A->B") == [mine]
    assert trail.read(about="x") == []


def test_from_a_moment_on(trail: TableAudit) -> None:
    first, second, third = row("t", 5), row("t", 2 * DAY_MS), row("t", 2 * DAY_MS + 7)
    write(trail, first, second, third)
    assert trail.read(since_ms=2 * DAY_MS + 1) == [third]
    assert trail.read(since_ms=6) == [second, third]


def test_nothing_yet_is_nothing_and_nothing_to_tidy(trail: TableAudit, tmp_path: Path) -> None:
    assert trail.read() == []
    asyncio.run(trail.care(DAY_MS))
    assert not (tmp_path / "store").exists()


def test_days_that_are_over_become_one_file_and_old_ones_go(tmp_path: Path) -> None:
    trail = TableAudit(Storage.of_folder(tmp_path / "store"), keep_days=2)
    rows = [row(f"t{number}", number * DAY_MS // 2) for number in range(10)]  # of five days
    for one in rows:
        write(trail, one)
    assert len(days(tmp_path)) == 10
    asyncio.run(trail.care(4 * DAY_MS + 5))
    assert days(tmp_path) == ["1970-01-02", "1970-01-03", "1970-01-04", "1970-01-05", "1970-01-05"]
    assert trail.read() == rows[2:]
    asyncio.run(trail.care(30 * DAY_MS))
    assert trail.read() == rows[2:], "two days before the last day but one, whatever the clock says"


def test_care_is_taken_once_a_day_and_nothing_goes_where_it_is_kept_for_ever(trail: TableAudit, tmp_path: Path) -> None:
    for at_ms in (1, 2):
        write(trail, row("t", at_ms))
    asyncio.run(trail.care(DAY_MS - 1))  # the day is not over
    assert len(days(tmp_path)) == 2
    asyncio.run(trail.care(900 * DAY_MS))
    assert (trail.read(), len(days(tmp_path))) == ([row("t", 1), row("t", 2)], 1)
    write(trail, row("t", 3))
    asyncio.run(trail.care(900 * DAY_MS + 1))
    assert len(days(tmp_path)) == 2


def test_a_broken_file_is_told_when_it_is_read_and_when_it_is_folded(trail: TableAudit, tmp_path: Path) -> None:
    for at_ms in (1, 2):
        write(trail, row("t", at_ms))
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"no parquet")
    with pytest.raises(AuditFailed, match=r"store/tables/audit: cannot be read: "):
        trail.read()
    with pytest.raises(AuditFailed, match="past days cannot be folded or removed: "):
        asyncio.run(trail.care(5 * DAY_MS))


def test_a_table_of_a_later_version_is_told(trail: TableAudit, tmp_path: Path) -> None:
    write(trail, row("t", 5))
    log = tmp_path / "store" / "tables" / "audit" / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text().replace('"raymirror.format":"1"', '"raymirror.format":"9"'))
    with pytest.raises(AuditFailed, match=r"cannot be written: .*format 9"):
        write(trail, row("t", 6))


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(AuditFailed, match="cannot be written"):
        write(TableAudit(Storage.of_folder(tmp_path / "store")), row("t", 5))


@pytest.mark.local
def test_writing_and_tidying_need_no_pyarrow(tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib, sys
from tests.unit.engine.jobs.audit.test_store import DAY_MS, Storage, TableAudit, row, write
trail = TableAudit(Storage.of_folder(pathlib.Path({str(tmp_path)!r})), 30)
write(trail, row("t", 5), row("t", DAY_MS))
write(trail, row("t", 5))
asyncio.run(trail.care(3 * DAY_MS))
print("pyarrow" in sys.modules, len(list(pathlib.Path({str(tmp_path)!r}).rglob("day=1970-01-01/*"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "3"], "two files and the one that has the rows of both"

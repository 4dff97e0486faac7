"""The audit trail in Parquet files: written rows are read, complete files only, from an instant on."""

import asyncio
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from engine.config.storage import Storage
from engine.flow.config_sync.audit import AuditFailed, AuditRow
from engine.jobs.audit import care as audit_care
from engine.jobs.audit.store import ParquetAudit

DAY_MS = 86_400_000


def row(topic: str, at_ms: int, **more: str) -> AuditRow:
    plain = AuditRow(
        at_ms=at_ms, run=f"{at_ms}-x", flow="A->B", who="ann", topic=topic, target=f"A.{topic}", change="set_config"
    )
    return msgspec.structs.replace(plain, **more)


@pytest.fixture
def trail(tmp_path: Path) -> ParquetAudit:
    return ParquetAudit(Storage.of_folder(tmp_path / "store"))


def test_what_was_written_is_read_in_order_and_once(trail: ParquetAudit, tmp_path: Path) -> None:
    later, sooner = row("t", 2 * DAY_MS, before="1", after="5ü"), row("u", 5, outcome="failed", detail="no right")
    asyncio.run(trail.write([later]))
    asyncio.run(trail.write([sooner]))
    asyncio.run(trail.write([later, row("v", 2 * DAY_MS + 1)]))  # the first of them again: nobody knew of it
    assert trail.read() == [sooner, later, row("v", 2 * DAY_MS + 1)]
    names = sorted(str(path.relative_to(tmp_path / "store")) for path in tmp_path.rglob("*.parquet"))
    assert names == [
        "audit/1970-01-01/5-5-x-1.parquet",
        "audit/1970-01-03/172800000-172800000-x-1.parquet",
        "audit/1970-01-03/172800000-172800000-x-2.parquet",
    ]


def test_a_topic_is_found_by_its_name_on_either_side_and_a_flow_by_its(trail: ParquetAudit) -> None:
    mine, other = row("t", 5), row("u", 6, flow="B->A")
    asyncio.run(trail.write([mine, other]))
    assert trail.read(about="t") == trail.read(about="A.t") == trail.read(flow="A->B") == [mine]
    assert trail.read(about="x") == []


def test_from_a_moment_on(trail: ParquetAudit) -> None:
    first, second, third = row("t", 5), row("t", 2 * DAY_MS), row("t", 2 * DAY_MS + 7)
    for one in (first, second, third):
        asyncio.run(trail.write([one]))
    assert trail.read(since_ms=2 * DAY_MS + 1) == [third]
    assert trail.read(since_ms=6) == [second, third]


def test_nothing_yet_is_nothing(trail: ParquetAudit) -> None:
    assert trail.read() == []


def test_what_waited_over_midnight_is_found_on_its_day(trail: ParquetAudit) -> None:
    before, after = row("t", DAY_MS - 1), row("t", DAY_MS + 1)
    asyncio.run(trail.write([before, after]))
    assert trail.read(since_ms=DAY_MS) == [after]
    assert trail.read() == [before, after]


def files_in(tmp_path: Path) -> list[str]:
    return sorted(path.parent.name for path in tmp_path.rglob("*.parquet"))


def test_days_that_are_over_become_one_file_and_old_ones_go(tmp_path: Path) -> None:
    trail = ParquetAudit(Storage.of_folder(tmp_path / "store"), keep_days=2)
    rows = [row(f"t{number}", number * DAY_MS // 2) for number in range(10)]  # of five days
    for one in rows:
        asyncio.run(trail.write([one]))
    asyncio.run(trail.write([rows[6], rows[6]]))  # nobody knew that it was written
    (tmp_path / "store" / "audit" / "notes").mkdir()
    (tmp_path / "store" / "audit" / "notes" / "mine.parquet").write_bytes(b"somebody else's")
    asyncio.run(trail.care(4 * DAY_MS + 5))
    assert files_in(tmp_path) == ["1970-01-03", "1970-01-04", "1970-01-05", "1970-01-05", "notes"]
    assert trail.read() == rows[4:]
    (whole,) = (tmp_path / "store" / "audit" / "1970-01-04").iterdir()
    assert len(pq.read_table(whole)) == 2
    asyncio.run(trail.care(30 * DAY_MS))
    assert trail.read() == []
    assert files_in(tmp_path) == ["notes"]


def test_care_is_taken_once_a_day_and_nothing_goes_where_it_is_kept_for_ever(
    trail: ParquetAudit, tmp_path: Path
) -> None:
    for at_ms in (1, 2):
        asyncio.run(trail.write([row("t", at_ms)]))
    asyncio.run(trail.care(DAY_MS - 1))  # the day is not over
    assert len(files_in(tmp_path)) == 2
    asyncio.run(trail.care(900 * DAY_MS))
    assert trail.read() == [row("t", 1), row("t", 2)]
    asyncio.run(trail.write([row("t", 3)]))
    asyncio.run(trail.care(900 * DAY_MS + 1))
    assert len(files_in(tmp_path)) == 2


def test_files_that_are_merged_while_they_are_read_are_listed_again(
    trail: ParquetAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at_ms in (1, 2):
        asyncio.run(trail.write([row("t", at_ms)]))
    listed, lists = ParquetAudit._files, list[int]()

    def and_merged(files: fs.FileSystem, root: str, first_day: str) -> list[str]:
        found = listed(files, root, first_day)
        lists.append(len(found))
        if len(lists) == 1:
            asyncio.run(trail.care(5 * DAY_MS))
        return found

    monkeypatch.setattr(ParquetAudit, "_files", staticmethod(and_merged))
    assert trail.read() == [row("t", 1), row("t", 2)]
    assert lists == [2, 1]


def test_a_day_that_cannot_be_merged_is_told_and_one_that_somebody_else_merges_is_not(
    trail: ParquetAudit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at_ms in (1, 2):
        asyncio.run(trail.write([row("t", at_ms)]))
    broken = tmp_path / "store" / "audit" / "1970-01-01" / "9.parquet"
    broken.write_bytes(b"no parquet")
    with pytest.raises(AuditFailed, match="cannot be merged or removed"):
        asyncio.run(trail.care(5 * DAY_MS))
    broken.unlink()
    assert trail.read() == [row("t", 1), row("t", 2)]
    gone = {"1970-01-01": [f"{tmp_path}/store/audit/1970-01-01/{name}.parquet" for name in ("a", "b")]}
    monkeypatch.setattr(audit_care, "files_by_day", lambda _files, _root: gone)
    asyncio.run(trail.care(6 * DAY_MS))


def test_half_a_file_is_not_read_and_a_broken_one_is_told(trail: ParquetAudit, tmp_path: Path) -> None:
    asyncio.run(trail.write([row("t", 5)]))
    folder = tmp_path / "store" / "audit" / "1970-01-01"
    (folder / "9-x-1.parquet.part").write_bytes(b"half")
    assert trail.read() == [row("t", 5)]
    (folder / "9-x-1.parquet").write_bytes(b"no parquet")
    with pytest.raises(AuditFailed, match=r"cannot be read: .*9-x-1\.parquet"):
        trail.read()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    trail = ParquetAudit(Storage.of_folder(tmp_path / "store"))
    with pytest.raises(AuditFailed, match="cannot be written"):
        asyncio.run(trail.write([row("t", 5)]))


def test_others_read_it_too(trail: ParquetAudit, tmp_path: Path) -> None:
    asyncio.run(trail.write([row("t", 5)]))
    (path,) = tmp_path.rglob("*.parquet")
    assert pq.read_table(path).to_pylist() == [msgspec.structs.asdict(row("t", 5))]

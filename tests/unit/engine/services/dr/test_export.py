"""Exports of what only a source in memory has: whole files, read back, with their names at the end."""

from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from engine.base.errors import BatchTooLarge, ConnectionLost, OffsetGone
from engine.core.divergence.export_file import BadExport, ExportWriter, read_back
from engine.core.reports.log_content import ContentRange
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.services.dr import export
from engine.services.dr.export import CannotExport, ExportedPartition, PartitionExporter, prepare
from engine.wire.record import Record
from policies.dr.separation import LogBounds
from tests.fakes.cluster import FakeCluster
from tests.unit.policies.dr.separated import LANE, separation


def cluster(shared: int, alone: int) -> FakeCluster:
    made = FakeCluster("A")
    log = made.source("t")
    log.data(shared)
    if alone:
        log.data(alone)
    return made


def surveyed(source: FakeCluster, shared: int) -> SurveyedPartition:
    log = source.sources[LANE.source]
    found = separation(shared, log.end - shared, 0)
    bounds = LogBounds(start=log.start, end=log.end, stable_end=log.last_stable)
    separated = msgspec.structs.replace(found, source=bounds)
    content = log.content(ContentRange(first=shared, end=log.end, since=shared, most_bytes=1 << 20))
    return SurveyedPartition(separation=separated, diverged=content)


async def exported(source: FakeCluster, found: SurveyedPartition, folder: Path) -> ExportedPartition:
    return await PartitionExporter("A->B", "id", source, folder).export(found)


async def test_only_what_the_target_lacks_is_written(tmp_path: Path) -> None:
    source = cluster(5, 3)
    found = await exported(source, surveyed(source, 5), tmp_path)
    path = tmp_path / "t-0.jsonl"
    assert (found.first, found.end, found.records, found.expired, found.why, found.file) == (5, 8, 3, 0, "", str(path))
    head, foot = read_back(BytesIO(path.read_bytes()), "f")
    assert (head.flow, head.cluster_id, head.topic, head.partition, foot.records) == ("A->B", "id", "t", 0, 3)
    rows = [msgspec.json.decode(line, type=Record) for line in path.read_bytes().splitlines()[1:-1]]
    assert [(row.offset, row.key) for row in rows] == [(5, b"5"), (6, b"6"), (7, b"7")]
    assert (path.stat().st_mode & 0o777, [one.name for one in tmp_path.iterdir()]) == (0o600, ["t-0.jsonl"])


async def test_nothing_to_export_is_no_file(tmp_path: Path) -> None:
    source = cluster(5, 0)
    found = await exported(source, surveyed(source, 5), tmp_path)
    assert (found.file, found.records, found.why, list(tmp_path.iterdir())) == ("", 0, "", [])


async def test_what_was_never_copied_is_exported_whole(tmp_path: Path) -> None:
    source = cluster(0, 4)
    found = surveyed(source, 0)
    never = msgspec.structs.replace(found.separation, source_next=-1, epoch_end=-1)
    one = await exported(source, msgspec.structs.replace(found, separation=never), tmp_path)
    assert (one.first, one.records) == (0, 4)


async def test_what_retention_has_taken_is_counted(tmp_path: Path) -> None:
    source = cluster(5, 3)
    source.sources[LANE.source].start = 7
    found = await exported(source, surveyed(source, 5), tmp_path)
    assert (found.first, found.expired, found.records) == (7, 2, 1)


async def test_an_open_transaction_makes_the_export_partial_and_says_so(tmp_path: Path) -> None:
    source = cluster(5, 3)
    source.sources[LANE.source].open_data(2, 9)
    found = await exported(source, surveyed(source, 5), tmp_path)
    assert (found.records, found.end) == (3, 10)
    assert found.why == "a transaction is open from offset 8: what follows it is not exported"


async def test_a_partition_that_is_not_known_is_not_exported(tmp_path: Path) -> None:
    unknown = SurveyedPartition(separation=separation(1, 0, 0, unknown="no leader"))
    found = await exported(cluster(1, 0), unknown, tmp_path)
    assert (found.why, found.file, found.end) == ("no leader", "", -1)


async def test_records_that_were_counted_and_cannot_be_read_are_missed(tmp_path: Path) -> None:
    """A leader that was just elected shows fewer records for a moment, and the file would seem whole."""
    source = cluster(5, 3)
    found = surveyed(source, 5)
    source.sources[LANE.source].truncate(5)
    one = await exported(source, found, tmp_path)
    assert one.why.startswith("only 0 of 3 records could be read: the log was cleaned, or its leader changed")


@pytest.mark.parametrize("failure", [ConnectionLost("t-0: gone"), OffsetGone("t-0"), BatchTooLarge("t", 0, 5, "x")])
async def test_a_partition_that_cannot_be_read_says_why_and_hides_no_other(tmp_path: Path, failure: Exception) -> None:
    source = cluster(5, 3)

    async def read_log(*_args: object, **_more: object) -> AsyncIterator[list[Record]]:
        raise failure
        yield []

    source.read_log = read_log  # type: ignore[method-assign]
    one = await exported(source, surveyed(source, 5), tmp_path)
    assert (one.why, one.file, one.records) == (str(failure), "", 0)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (LogBounds(), "records before 5 may have no copy, and are not exported: no copy"),
        (
            LogBounds(start=0, end=4, stable_end=4),
            "some records before 5 have no copy, and are not exported: the copy ends at 4, below what was copied (5)",
        ),
    ],
)
async def test_a_copy_that_lost_records_makes_the_export_partial_and_says_so(
    tmp_path: Path, target: LogBounds, why: str
) -> None:
    source = cluster(5, 3)
    found = surveyed(source, 5)
    separated = msgspec.structs.replace(found.separation, target=target, unknown="no copy")
    one = await exported(source, msgspec.structs.replace(found, separation=separated), tmp_path)
    assert (one.records, one.why) == (3, why)


class Full:
    """A source whose records do not fit on the disk."""

    async def read_log(self, *_args: object, **_more: object) -> AsyncIterator[list[Record]]:
        raise OSError(28, "No space left on device")
        yield []


async def test_a_full_disk_names_the_file_and_leaves_it_without_its_name(tmp_path: Path) -> None:
    source = cluster(5, 3)
    source.read_log = Full().read_log  # type: ignore[method-assign]
    with pytest.raises(CannotExport, match=r"t-0\.jsonl: No space left on device; name an empty folder"):
        await exported(source, surveyed(source, 5), tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["t-0.jsonl.part"]


async def test_a_disk_that_gives_back_something_else_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = cluster(5, 3)

    class Forgets(ExportWriter):
        def write(self, records: list[Record]) -> None:  # type: ignore[override]
            super().write(records[:-1])
            self._records += 1

    monkeypatch.setattr(export, "ExportWriter", Forgets)
    with pytest.raises(BadExport):
        await exported(source, surveyed(source, 5), tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["t-0.jsonl.part"]


def test_a_folder_must_be_empty_and_writable(tmp_path: Path) -> None:
    made = tmp_path / "new" / "folder"
    prepare(made)
    prepare(made)
    assert made.stat().st_mode & 0o777 == 0o700
    (made / "x").touch()
    with pytest.raises(CannotExport, match="it is not empty"):
        prepare(made)
    with pytest.raises(CannotExport, match=r"Not a directory|File exists"):
        prepare(made / "x")

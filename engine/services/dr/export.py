"""Exports the records that only the source has, for `raymirror dr export`: a file for each partition, read back.

It writes to no cluster. A file gets its name only after it was read back from the disk, so a file with that name is
whole.
"""

import asyncio
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError, WireError
from engine.core.divergence.export_file import BadExport, ExportFoot, ExportHead, ExportWriter, read_back
from engine.core.reports.log_content import LogContent
from engine.flow.ports.ports import Cluster
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.services.dr.preview import PreviewService
from policies.dr.separation import Separation
from policies.model import TopicPartition

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_BUFFER_BYTES = 1024 * 1024
_UNNAMED = ".part"
_UNREADABLE = (BrokerUnreachable, ConnectionLost, KafkaRefusal, WireError)


class CannotExport(MirrorError):
    """The folder of an export cannot be used, or written to: path, why."""

    exit_code = 1

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"cannot export to {self.path}: {self.why}; name an empty folder with enough room: --to DIR"


class ExportedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: the source offsets `first` up to `end` that only the source has, and the file with their records.

    `why`: why the export is not whole, empty if it is. `expired`: offsets that the source's retention has deleted
    already. `file`: empty if there is nothing to export.
    """

    topic: str
    partition: int
    first: int
    end: int
    records: int = 0
    expired: int = 0
    file: str = ""
    why: str = ""


class ExportService(PreviewService):
    """The export of one flow, over connections of its own, as an async context. Raises what `Failover` raises."""

    async def export(self, folder: Path) -> tuple[ExportedPartition, ...]:
        """Export every partition that has records which only the source has.

        Raises CannotExport, BadExport, BrokerUnreachable if the source does not answer, ConnectionLost, KafkaRefusal.
        """
        if self.gone:
            raise BrokerUnreachable(f"cluster {self._flow.name.source!r}", self.gone)
        await asyncio.to_thread(prepare, folder)
        exporter = PartitionExporter(str(self._flow.name), await self._source.cluster_id(), self._source, folder)
        return tuple([await exporter.export(one) for one in await self.survey()])


class PartitionExporter:
    """Exports partitions of one source cluster to files of one folder."""

    def __init__(self, flow: str, cluster_id: str, source: Cluster, folder: Path) -> None:
        self._flow, self._cluster_id, self._source, self._folder = flow, cluster_id, source, folder

    async def export(self, found: SurveyedPartition) -> ExportedPartition:
        """Export one partition; one that cannot be read says why. Raises CannotExport, BadExport."""
        separation, lane = found.separation, found.separation.lane.source
        if found.diverged is None:
            unknown = separation.unknown
            return ExportedPartition(topic=lane.topic, partition=lane.partition, first=-1, end=-1, why=unknown)
        split = separation.split if separation.source_next >= 0 else separation.source.start
        head = ExportHead(
            flow=self._flow,
            cluster_id=self._cluster_id,
            topic=lane.topic,
            partition=lane.partition,
            first=max(split, separation.source.start),
            end=separation.source.end,
        )
        blank = ExportedPartition(
            topic=lane.topic,
            partition=lane.partition,
            first=head.first,
            end=head.end,
            expired=head.first - split,
            why=_open(separation) or _without_copy(separation),
        )
        if head.first >= head.end or not found.diverged.records:
            return blank
        path = self._folder / f"{lane}.jsonl"
        try:
            foot = await self._write(head, path)
        except OSError as error:
            raise CannotExport(str(path), error.strerror or str(error)) from error
        except _UNREADABLE as failure:  # the others are exported
            return msgspec.structs.replace(blank, why=str(failure))
        why = blank.why or _short(found.diverged, foot)
        return msgspec.structs.replace(blank, records=foot.records, file=str(path), why=why)

    async def _write(self, head: ExportHead, path: Path) -> ExportFoot:
        """Write a file without its name, read it back, and give it its name."""
        part, lane = path.with_name(path.name + _UNNAMED), TopicPartition(head.topic, head.partition)
        with _created(part) as file:
            writer = ExportWriter(file, head)
            async for records in self._source.read_log(lane, head.first, head.end, committed=True):
                writer.write(records)
            foot = writer.finish()
            await asyncio.to_thread(_flush, file)
        if (head, foot) != await asyncio.to_thread(_read_back, part):
            raise BadExport(str(part), "it is not what was written")
        await asyncio.to_thread(_name, part, path)
        return foot


def _open(separation: Separation) -> str:
    if not separation.source.is_open:
        return ""
    return f"a transaction is open from offset {separation.source.stable_end}: what follows it is not exported"


def _without_copy(separation: Separation) -> str:
    """Say that records before the exported ones may be only on the source too: the target has lost their copies."""
    if separation.source_next < 0:
        return ""
    if not separation.target.is_known:
        return f"records before {separation.source_next} may have no copy, and are not exported: {separation.unknown}"
    if separation.target.end < separation.target_next:
        ends = f"the copy ends at {separation.target.end}, below what was copied ({separation.target_next})"
        return f"some records before {separation.source_next} have no copy, and are not exported: {ends}"
    return ""


def _short(counted: LogContent, foot: ExportFoot) -> str:
    """Say that records which were counted could not be read: without its leader, a log seems to end early."""
    if not counted.is_whole or foot.records >= counted.records:
        return ""
    return (
        f"only {foot.records} of {counted.records} records could be read: the log was cleaned, or its leader changed;"
        " export again"
    )


def prepare(folder: Path) -> None:
    """Create the folder, readable by its owner alone. Raises CannotExport, also if it holds something."""
    try:
        folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        is_filled = any(folder.iterdir())
    except OSError as error:
        raise CannotExport(str(folder), error.strerror or str(error)) from error
    if is_filled:
        raise CannotExport(str(folder), "it is not empty")


def _created(path: Path) -> BinaryIO:
    return open(path, "wb", _BUFFER_BYTES, opener=_private)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE_FILE)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read_back(path: Path) -> tuple[ExportHead, ExportFoot]:
    with path.open("rb") as file:
        return read_back(file, str(path))


def _name(part: Path, path: Path) -> None:
    """Give a file its name, and make the name durable."""
    part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

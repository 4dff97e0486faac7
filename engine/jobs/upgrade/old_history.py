"""Reads the history of lag of earlier versions, and copies its files into the table `lag`.

    <storage>/history/lag/A/B/data/hour=2026-05-01T12/<anything>/part-....parquet     never changed once written
    <storage>/history/lag/A/B/commits/<name>.json                                      adds files, withdraws others

A file counts if a commit adds it and none withdraws it. The rows have the columns of the table, so a file is copied as
it is. If a window was stored several times, readers and compaction of the table find its most complete row.
"""

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import PurePosixPath

import msgspec
import pyarrow as pa
from pyarrow import fs

from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.storage import Storage
from engine.core.formats import check_format
from engine.jobs.runtime.storage_files import open_storage
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import DataFile
from engine.jobs.tables.table import Batch, Table
from policies.model import FlowName

FORMAT_VERSION = 1
_COMMITS, _DATA, _END = "commits", "data", ".json"
_MARK = "converted.json"


class OldHistoryDamaged(MirrorError):
    """A file of the old history cannot be read."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return (
            f"{self.path} is not a valid file of the history ({self.why}); move it out of this folder and convert"
            " again: the history then lacks the windows in it"
        )


class _Commit(msgspec.Struct):
    """Files (paths below `data`) that count from now on (`adds`), and files that no longer count (`removes`)."""

    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    format: int = FORMAT_VERSION


def old_history_uri(storage: Storage, flow: FlowName) -> str:
    """Return the URI of the folder in which earlier versions kept the windows of a flow."""
    return storage.path("history", "lag", flow.source, flow.target)


def is_unconverted(uri: str) -> bool:
    """Whether a folder is an old history that was not converted yet. Raises OSError, ArrowException."""
    filesystem, root = open_storage(uri)
    mark = filesystem.get_file_info(f"{root}/{_MARK}")
    return not mark.is_file and bool(_commits(filesystem, root))


def _commits(filesystem: fs.FileSystem, root: str) -> list[str]:
    """Return the paths of all commits."""
    found = filesystem.get_file_info(fs.FileSelector(f"{root}/{_COMMITS}", allow_not_found=True))
    return sorted(one.path for one in found if one.type is fs.FileType.File and one.path.endswith(_END))


class OldHistory:
    """The histories of all flows of a storage: an `OldStore`."""

    what = "the history of lag"
    table = LAG.name

    def places(self, storage: Storage) -> list[str]:
        """Return the URIs of the histories that are not converted yet. Raises OSError, ArrowException."""
        base = storage.path("history", "lag")
        filesystem, root = open_storage(base)
        names = [
            f"{source}/{target}"
            for source in _folders(filesystem, root)
            for target in _folders(filesystem, f"{root}/{source}")
        ]
        return [f"{base}/{name}" for name in names if is_unconverted(f"{base}/{name}")]

    def convert(self, storage: Storage, place: str) -> int:
        """Copy the files of a history into the table, hour by hour; return the number of rows.

        Each hour is a batch of its own, so an interrupted conversion continues after the last one. Raises TableError,
        NewerFormat, OldHistoryDamaged, OSError.
        """
        table = Table(storage.path("tables", LAG.name), LAG)
        table.create()
        filesystem, root = open_storage(place)
        writer = f"conversion of {place.removeprefix(storage.uri)}"
        last, rows = table.committed(writer), 0
        for hour, paths in sorted(_live(filesystem, root).items()):
            if last is None or _number(hour) > last:
                files = [_copied(table, f"{root}/{_DATA}/{path}", hour) for path in paths]
                table.commit([file for file in files if file.rows], Batch(writer, _number(hour)))
                rows += sum(file.rows for file in files)
        with filesystem.open_output_stream(f"{root}/{_MARK}") as stream:
            stream.write(msgspec.json.encode({"at_ms": wall_ms(), "table": table.uri}))
        return rows


def _folders(filesystem: fs.FileSystem, path: str) -> list[str]:
    found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type is fs.FileType.Directory)


def _copied(table: Table, path: str, hour: str) -> DataFile:
    try:
        return table.files.take_copy(path, hour)
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise OldHistoryDamaged(path, str(error)) from None


def _live(filesystem: fs.FileSystem, root: str) -> dict[str, list[str]]:
    """Return the files that count by their hour, as paths below `data`. Raises OldHistoryDamaged, NewerFormat."""
    commits = [_read(filesystem, path) for path in _commits(filesystem, root)]
    gone = {file for commit in commits for file in commit.removes}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted({file for commit in commits for file in commit.adds} - gone):
        if hour := _hour_of(file):
            found[hour].append(file)
    return found


def _read(filesystem: fs.FileSystem, path: str) -> _Commit:
    with filesystem.open_input_stream(path) as stream:
        raw = stream.read()
    try:
        commit = msgspec.json.decode(raw, type=_Commit)
    except msgspec.DecodeError as error:
        raise OldHistoryDamaged(path, str(error)) from None
    check_format(commit.format, FORMAT_VERSION, path)
    return commit


def _hour_of(file: str) -> str:
    """Return the hour (`2026-05-01T12`, UTC) that a path names; empty if it names none."""
    parts = (part for part in PurePosixPath(file).parts if part.startswith("hour="))
    return next(parts, "hour=").removeprefix("hour=")


def _number(hour: str) -> int:
    """Return an hour as a number that grows by one from hour to hour."""
    return round(datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp()) // 3600

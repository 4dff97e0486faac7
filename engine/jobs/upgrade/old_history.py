"""Reads the history of lag of earlier versions, and copies its files into the table `lag`.

    <storage>/history/lag/A/B/data/hour=2026-05-01T12/<anything>/part-....parquet     never changed once written
    <storage>/history/lag/A/B/commits/<name>.json                                      adds files, withdraws others

A file counts if a commit adds it and none withdraws it. The rows have the columns of the table, so a file is copied as
it is. If a window was stored several times, readers and compaction of the table find its most complete row.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePosixPath

import msgspec
import pyarrow as pa
from pyarrow import fs

from engine.config.storage import Storage
from engine.core.formats import check_format
from engine.jobs.runtime.storage_files import open_storage
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_files import Added, OldFileDamaged, OldFiles
from policies.model import FlowName

FORMAT_VERSION = 1
_COMMITS, _DATA, _END = "commits", "data", ".json"
_HOUR = "%Y-%m-%dT%H"


class _Commit(msgspec.Struct):
    """Files (paths below `data`) that count from now on (`adds`), and files that no longer count (`removes`)."""

    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    format: int = FORMAT_VERSION


def old_history_uri(storage: Storage, flow: FlowName) -> str:
    """Return the URI of the folder in which earlier versions kept the windows of a flow."""
    return storage.path("history", "lag", flow.source, flow.target)


def is_unconverted(uri: str) -> bool:
    """Whether a folder is an old history with commits that are not converted yet. Raises OSError, ArrowException."""
    return bool(OldFiles(uri).late(_commits(*open_storage(uri))))


def _commits(filesystem: fs.FileSystem, root: str) -> list[str]:
    """Return all commits, as paths below the root."""
    found = filesystem.get_file_info(fs.FileSelector(f"{root}/{_COMMITS}", allow_not_found=True))
    names = sorted(one.base_name for one in found if one.type is fs.FileType.File)
    return [f"{_COMMITS}/{name}" for name in names if name.endswith(_END)]


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

    def convert(self, storage: Storage, place: str) -> Added:
        """Copy the files of a history into the table, one after another.

        Each file is a batch of its own, so an interrupted conversion continues, and a file that a mirror of an earlier
        version has added since is added, whatever its hour. Raises TableError, NewerFormat, OldFileDamaged, OSError.
        """
        table = Table(storage.path("tables", LAG.name), LAG)
        table.create()
        filesystem, root = open_storage(place)
        commits, files = _commits(filesystem, root), OldFiles(place)
        hours = {f"{_DATA}/{file}": hour for file, hour in _live(filesystem, root, commits).items()}
        writer = f"conversion of {place.removeprefix(storage.uri)}"
        rows = [
            _added(table, filesystem, f"{root}/{file}", hours[file], Batch(f"{writer} {file}", 0))
            for file in files.late(hours)
        ]
        files.mark(table.uri, [*commits, *hours])
        return Added(rows=sum(one for one in rows if one is not None), missing=rows.count(None))


def _folders(filesystem: fs.FileSystem, path: str) -> list[str]:
    found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type is fs.FileType.Directory)


def _added(table: Table, filesystem: fs.FileSystem, path: str, hour: str, batch: Batch) -> int | None:
    """Add a file to the table unless it is there; return its rows, None if the file is gone. Raises OldFileDamaged."""
    if table.has(batch):
        return 0
    if not filesystem.get_file_info(path).is_file:
        return None
    try:
        copied = table.files.take_copy(path, hour)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, ValueError) as error:  # ValueError: it lacks a column
        raise OldFileDamaged(path, str(error).splitlines()[0]) from None
    return copied.rows if table.commit([copied] if copied.rows else [], batch) else 0


def _live(filesystem: fs.FileSystem, root: str, names: Iterable[str]) -> dict[str, str]:
    """Return the files that count, as paths below `data`, with their hours. Raises OldFileDamaged, NewerFormat."""
    commits = [_read(filesystem, f"{root}/{name}") for name in names]
    gone = {file for commit in commits for file in commit.removes}
    found = sorted({file for commit in commits for file in commit.adds} - gone)
    return {file: _hour_of(file, f"{root}/{_DATA}/{file}") for file in found}


def _read(filesystem: fs.FileSystem, path: str) -> _Commit:
    with filesystem.open_input_stream(path) as stream:
        raw = stream.read()
    try:
        commit = msgspec.json.decode(raw, type=_Commit)
    except msgspec.DecodeError as error:
        raise OldFileDamaged(path, str(error)) from None
    check_format(commit.format, FORMAT_VERSION, path)
    return commit


def _hour_of(file: str, path: str) -> str:
    """Return the hour (`2026-05-01T12`, UTC) that a path names. Raises OldFileDamaged."""
    parts = (part for part in PurePosixPath(file).parts if part.startswith("hour="))
    hour = next(parts, "hour=").removeprefix("hour=")
    try:
        datetime.strptime(hour, _HOUR).replace(tzinfo=UTC)
    except ValueError:
        raise OldFileDamaged(path, "its folder names no hour") from None
    return hour

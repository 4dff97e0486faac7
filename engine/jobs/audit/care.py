"""Merges and removes files of the audit trail: each past day becomes one file, days that are too old are deleted.

The merged file exists before its sources are deleted, so an interruption loses nothing. Rows that are in both files for
a moment are equal, and count as one row. If two processes merge at once, more than one file is left, and the next run
merges those.
"""

import re
from collections import defaultdict
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

ENDING = ".parquet"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def care(files: fs.FileSystem, root: str, *, first: str, today: str) -> int:
    """Delete days before `first` (empty: none), merge those before `today`; return how many files were deleted.

    Raises OSError, ArrowException.
    """
    gone = 0
    for day, paths in sorted(files_by_day(files, root).items()):
        if day < first:
            files.delete_dir(f"{root}/{day}")
            gone += len(paths)
        elif day < today and len(paths) > 1:
            _merge(files, f"{root}/{day}", paths)
            gone += len(paths) - 1
    return gone


def files_by_day(files: fs.FileSystem, root: str) -> dict[str, list[str]]:
    """List the complete files of each day."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True)):
        day = one.path.rsplit("/", 2)[-2]
        if one.type is fs.FileType.File and one.path.endswith(ENDING) and _DAY.fullmatch(day):
            found[day].append(one.path)
    return {day: sorted(paths) for day, paths in found.items()}


def write_whole(files: fs.FileSystem, path: str, table: pa.Table) -> None:
    """Write a file so that it appears whole: readers select by the ending, so they never see half a file."""
    pq.write_table(table, f"{path}.part", filesystem=files)
    files.move(f"{path}.part", path)


def _merge(files: fs.FileSystem, folder: str, paths: list[str]) -> None:
    table = pa.concat_tables([pq.read_table(path, filesystem=files) for path in paths], promote_options="default")
    distinct = table.group_by(table.column_names, use_threads=False).aggregate([]).sort_by("at_ms")
    write_whole(files, f"{folder}/merged-{uuid4().hex}{ENDING}", distinct)
    for path in paths:
        files.delete_file(path)

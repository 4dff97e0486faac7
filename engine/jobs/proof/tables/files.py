"""Reads and writes the tables of proofs (`rows.py`) in this process, in the same layout as Spark's."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import dataset, fs, parquet

from engine.jobs.proof.model import ProofReport, ProofStorageUnreadable, Proven
from engine.jobs.proof.state import Key
from engine.jobs.proof.tables.rows import LANES, Columns, fold, tables_of
from engine.jobs.runtime.storage_files import open_storage

_FILE, _DONE = "part-00000.parquet", "_SUCCESS"
_HIDDEN = ("_", ".")
"""First characters of the names of files that Spark skips."""
_TYPES = {"text": pa.string(), "int": pa.int32(), "long": pa.int64()}


def proven(folder: str) -> dict[Key, Proven]:
    """Return what earlier proofs found whole. Raises ProofStorageUnreadable."""
    try:
        files, root = open_storage(f"{folder}/lanes")
        listed = files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
        paths = sorted(info.path for info in listed if info.type is fs.FileType.File and _is_data(info.path, root))
        if not paths:
            return {}
        table = dataset.dataset(paths, schema=_schema(LANES), format="parquet", filesystem=files).to_table()
    except (OSError, pa.ArrowException) as error:
        raise ProofStorageUnreadable(folder, _line(error)) from None
    return fold(table.sort_by([("began_ms", "ascending"), ("run", "ascending")]).to_pylist())


def store(folder: str, report: ProofReport) -> None:
    """Append a report to the flow's tables. Raises ProofStorageUnreadable."""
    try:
        for name, columns, rows in tables_of(report):
            _write(f"{folder}/{name}", columns, rows)
    except (OSError, pa.ArrowException) as error:
        raise ProofStorageUnreadable(folder, _line(error)) from None


def _write(uri: str, columns: Columns, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write a folder: its file appears whole, and then its marker file."""
    files, root = open_storage(uri)
    files.create_dir(root)
    names = list(columns)
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], _schema(columns))
    hidden = f"{root}/_{_FILE}"
    parquet.write_table(table, hidden, filesystem=files)
    files.move(hidden, f"{root}/{_FILE}")
    with files.open_output_stream(f"{root}/{_DONE}"):
        pass


def _schema(columns: Columns) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def _is_data(path: str, root: str) -> bool:
    """Whether Spark would read a file as data: neither the file nor a folder on its path is hidden."""
    return not any(part.startswith(_HIDDEN) for part in PurePosixPath(path).relative_to(root).parts)


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__

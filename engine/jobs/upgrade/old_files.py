"""Parquet files that earlier versions wrote in folders of their own: finds, reads and marks them.

A folder that was converted has a mark, which lists the files whose rows are in the table. So a file that a mirror of an
earlier version writes later is found, and so is one that came while an interrupted conversion waited.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.jobs.runtime.storage_files import open_storage

_MARK = "converted.json"
_HIDDEN = ("_", ".")
"""First characters of the names of files that are not complete, or no data."""


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversion added to a table: rows, and how many files were named or listed but are gone."""

    rows: int = 0
    missing: int = 0


class _Mark(msgspec.Struct):
    """`files`: paths below the folder, None in marks that list none: then all of the folder is converted."""

    at_ms: int = 0
    table: str = ""
    files: tuple[str, ...] | None = None


class OldFileDamaged(MirrorError):
    """A file of an earlier version cannot be read."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return (
            f"{self.path} is no valid file ({self.why}); move it out of this folder and convert again:"
            " the table then lacks the rows in it"
        )


class OldFiles:
    """The files below the URI of a folder. Methods raise OSError."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = open_storage(uri)

    def folders(self) -> list[str]:
        """Return the names of the folders in this one."""
        found = self._fs.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        return sorted(one.base_name for one in found if one.type is fs.FileType.Directory)

    def paths(self) -> list[str]:
        """Return the complete Parquet files below this folder, as paths below it."""
        found = self._fs.get_file_info(fs.FileSelector(self._root, allow_not_found=True, recursive=True))
        paths = [PurePosixPath(one.path).relative_to(self._root) for one in found if one.type is fs.FileType.File]
        return sorted(str(path) for path in paths if path.suffix == ".parquet" and not _is_hidden(path))

    def read(self, path: str, schema: pa.Schema, needed: str) -> pa.Table:
        """Read the columns of a schema that a file has; the others are NULL, but not the column `needed`.

        Raises OldFileDamaged, FileNotFoundError.
        """
        try:
            with self._fs.open_input_file(f"{self._root}/{path}") as opened:
                table = pq.ParquetFile(opened).read()
            columns = [
                table.column(field.name).cast(field.type)
                if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
                for field in schema
            ]
        except pa.ArrowException as error:
            raise OldFileDamaged(f"{self.uri}/{path}", str(error).splitlines()[0]) from None
        found = pa.table(columns, schema=schema)
        if found.column(needed).null_count:
            raise OldFileDamaged(f"{self.uri}/{path}", f"rows without {needed}")
        return found

    def late(self, files: Iterable[str]) -> list[str]:
        """Return those of some paths below this folder that its mark does not list; all of them without a mark."""
        done = self._marked()
        return [] if done is None else sorted(set(files) - done)

    def _marked(self) -> set[str] | None:
        """Return the paths that the mark lists, none without a mark; None: there is a mark, and it lists none."""
        try:
            with self._fs.open_input_stream(f"{self._root}/{_MARK}") as stream:
                mark = msgspec.json.decode(stream.read(), type=_Mark)
        except (
            FileNotFoundError,
            msgspec.DecodeError,
        ):  # cut off while it was written: convert again, which adds nothing
            return set()
        return None if mark.files is None else set(mark.files)

    def mark(self, table_uri: str, files: Iterable[str]) -> None:
        """Mark some more files, as paths below this folder, as converted into a table."""
        done = sorted({*files, *(self._marked() or ())})
        with self._fs.open_output_stream(f"{self._root}/{_MARK}") as stream:
            stream.write(msgspec.json.encode(_Mark(wall_ms(), table_uri, tuple(done))))


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.parts)

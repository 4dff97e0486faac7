"""Parquet files that earlier versions wrote in folders of their own: finds, reads and marks them."""

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

    def read(self, path: str, schema: pa.Schema) -> pa.Table:
        """Read the columns of a schema that a file has; the others are NULL. Raises OldFileDamaged."""
        try:
            with self._fs.open_input_file(f"{self._root}/{path}") as opened:
                table = pq.ParquetFile(opened).read()
        except (pa.ArrowInvalid, FileNotFoundError) as error:
            raise OldFileDamaged(f"{self.uri}/{path}", str(error).splitlines()[0]) from None
        columns = [
            table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)

    def is_marked(self) -> bool:
        """Whether the folder is marked as converted."""
        return bool(self._fs.get_file_info(f"{self._root}/{_MARK}").is_file)

    def mark(self, table_uri: str) -> None:
        """Mark the folder as converted into a table."""
        with self._fs.open_output_stream(f"{self._root}/{_MARK}") as stream:
            stream.write(msgspec.json.encode({"at_ms": wall_ms(), "table": table_uri}))


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.parts)

"""Opens the files of a storage without Spark; imports pyarrow at the first use."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs


def open_storage(uri: str) -> "tuple[fs.FileSystem, str]":
    """Return the file system and the path of a storage URI. Raises OSError, ArrowException."""
    from pyarrow import fs

    if uri.startswith("file:"):
        return fs.LocalFileSystem(), uri.removeprefix("file:")
    found, path = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    return found, path.rstrip("/")

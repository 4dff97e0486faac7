"""The files of a storage, without Spark; pyarrow is imported with the first look."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs


def open_storage(uri: str) -> "tuple[fs.FileSystem, str]":
    """Open the place that a URI of ours means: a file system and a path there. Raises OSError, ArrowException."""
    from pyarrow import fs

    if uri.startswith("file:"):
        return fs.LocalFileSystem(), uri.removeprefix("file:")
    found, path = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    return found, path.rstrip("/")

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


def delta_uri(uri: str) -> str:
    """Return a storage URI as deltalake takes it: a plain path for a folder, because it would decode a `file:` URI."""
    return uri.removeprefix("file:").replace("s3a://", "s3://", 1)


def access_of(uri: str) -> dict[str, str]:
    """Return the storage options of deltalake for a storage URI; a folder needs none.

    For a bucket deltalake then finds what the environment has (`AWS_ACCESS_KEY_ID` and the like, or the node's role).
    """
    del uri
    return {}

"""Opens the files of a storage without Spark; imports pyarrow at the first use."""

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from engine.jobs.runtime.storage_access import ANSWER_S, CONNECT_S, TRIES, S3Access, bucket_of, is_s3, s3_access

if TYPE_CHECKING:
    from pyarrow import fs


def open_storage(uri: str) -> "tuple[fs.FileSystem, str]":
    """Return the file system and the path of a storage URI. Raises OSError, ArrowException, BadStorageAccess."""
    from pyarrow import fs

    if uri.startswith("file:"):
        return fs.LocalFileSystem(), uri.removeprefix("file:")
    if is_s3(uri):
        return _s3(s3_access(os.environ), bucket_of(uri)), uri.removeprefix("s3a://").rstrip("/")
    found, path = fs.FileSystem.from_uri(uri)
    return found, path.rstrip("/")


def delta_uri(uri: str) -> str:
    """Return a storage URI as deltalake takes it: a plain path for a folder, because it would decode a `file:` URI."""
    return uri.removeprefix("file:").replace("s3a://", "s3://", 1)


@lru_cache(maxsize=4)
def _s3(access: S3Access, bucket: str) -> "fs.S3FileSystem":
    """Return a client, with its connections. It asks the usual chain for credentials, and again when they expire."""
    from pyarrow import fs

    more = {"endpoint_override": access.host, "scheme": "http" if access.is_plain else "https"}
    return fs.S3FileSystem(
        region=access.region or fs.resolve_s3_region(bucket),
        connect_timeout=CONNECT_S,
        request_timeout=ANSWER_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        allow_delayed_open=True,  # one request for a small file, instead of three
        **(more if access.endpoint else {}),
    )

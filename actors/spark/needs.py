"""Checks before the start that Spark has its jars and a writable storage, in a folder or in a bucket.

Spark would start without them; its jobs would fail later, with less clear messages.
"""

import os
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

from engine.base.errors import MirrorError
from engine.config.storage import Storage
from engine.jobs.runtime.storage_access import is_s3
from engine.jobs.runtime.storage_check import check_bucket

_HADOOP_AWS = "hadoop-aws"


class SparkLacks(MirrorError):
    """Something that the configuration names is missing or unusable, on the machine where Spark's host runs."""

    def __init__(self, what: str, right: str) -> None:
        super().__init__(what, right)
        self.what, self.right = what, right

    def __str__(self) -> str:
        return f"{self.what}; {self.right}"


def check_jars(paths: Iterable[str]) -> None:
    """Raise SparkLacks if a jar cannot be read: Spark would start without it."""
    for path in paths:
        if not os.access(path, os.R_OK):
            raise SparkLacks(
                f"raymirror.spark.jars names {path}, which cannot be read on {socket.gethostname()}",
                "put the jar there, on every node with Java, or take it out of the list",
            )


def bucket_jars(storage: Storage | None, own: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the jars that Spark needs for a storage in a bucket; none if `own`, the user's jars, are for that.

    Raises SparkLacks if `raymirror setup s3` has not brought them here.
    """
    from deploy.local.jars import cache_folder, s3_jar_paths

    if storage is None or not is_s3(storage.uri) or any(_HADOOP_AWS in Path(path).name for path in own):
        return ()
    found = s3_jar_paths()
    if not found:
        raise SparkLacks(
            f"Spark's jars for {storage.uri} are not in {cache_folder()} on {socket.gethostname()}",
            "run `raymirror setup s3` on every node with Java, or name a hadoop-aws of yours in raymirror.spark.jars",
        )
    return found


def check_storage(storage: Storage | None) -> None:
    """Raise SparkLacks or StorageUnusable if the storage cannot be written: Spark's jobs store their results there."""
    if storage is None:
        return
    if not storage.is_local:
        check_bucket(storage.uri)
        return
    folder = Path(storage.uri.removeprefix("file:"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".raymirror-"):
            pass
    except OSError as error:
        raise SparkLacks(
            f"raymirror.storage: {folder} cannot be written on {socket.gethostname()} ({error.strerror})",
            "make it a folder that the user of Ray's processes may write, or name another",
        ) from None

"""Checks what Spark needs before it starts: jars and a storage that can be written.

Spark starts without them, and then its jobs fail later and say less.
"""

import os
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

from engine.base.errors import MirrorError
from engine.config.storage import Storage


class SparkLacks(MirrorError):
    """Something that the configuration names is missing or unusable, on the machine where Spark's host runs."""

    def __init__(self, what: str, right: str) -> None:
        super().__init__(what, right)
        self.what, self.right = what, right

    def __str__(self) -> str:
        return f"{self.what}; {self.right}"


def check_jars(paths: Iterable[str]) -> None:
    """Raise SparkLacks where a jar is not there: Spark would start without it."""
    for path in paths:
        if not os.access(path, os.R_OK):
            raise SparkLacks(
                f"raymirror.spark.jars names {path}, which cannot be read on {socket.gethostname()}",
                "put the jar there, on every node with Java, or take it out of the list",
            )


def check_storage(storage: Storage | None) -> None:
    """Raise SparkLacks where a storage that is a folder cannot be written: Spark's jobs store their results there."""
    if storage is None or not storage.is_local:
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

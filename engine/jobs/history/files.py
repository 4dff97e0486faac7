"""Manages the files of a history; commits decide which files count: each commit adds files and withdraws others.

    <root>/data/hour=2026-05-01T12/<anything>/part-....parquet     never changed once written
    <root>/commits/<name>.json                                      appears whole, or not at all

A file counts if a commit adds it and none withdraws it. So readers never see a file without a commit, a batch that is
written again finds its commit, and a compaction replaces files at the moment in which its commit appears.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from uuid import uuid4

import msgspec
from pyarrow import fs

from engine.base.errors import MirrorError
from engine.core.formats import check_format
from engine.jobs.runtime.storage_files import open_storage

FORMAT_VERSION = 1
_COMMITS, _DATA, _END = "commits", "data", ".json"


class HistoryDamaged(MirrorError):
    """A commit that cannot be read."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return (
            f"{self.path} is not a valid commit of the history ({self.why}); move the file out of this folder;"
            " the history then lacks the windows that the commit added"
        )


class HistoryCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Files (paths below `data`) that count from now on (`adds`), and files that no longer count (`removes`)."""

    at_ms: int
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    format: int = FORMAT_VERSION


class HistoryFiles:
    """The files of one history; `uri` as Spark takes it (`file:`, `s3a:`, `gs:`)."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = open_storage(uri)

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system in which `path` lies."""
        return self._fs

    def path(self, file: str) -> str:
        """Return the path of a data file, for `filesystem`."""
        return f"{self._root}/{_DATA}/{file}"

    def data_uri(self) -> str:
        """Return the URI of the data folder, as Spark takes it."""
        return f"{self.uri}/{_DATA}"

    def commits(self) -> dict[str, HistoryCommit]:
        """Read all commits by name.

        If a commit is deleted or emptied during the read, its successor may be missing in the listing. So the folder is
        listed again until two listings are equal.
        """
        found: dict[str, HistoryCommit] = {}
        while True:
            names = self._names()
            found = {name: found[name] for name in names if name in found}
            if len(found) == len(names) and names == self._names():
                return found
            for name in names:
                if name not in found and (commit := self.read(name)) is not None:
                    found[name] = commit

    def _names(self) -> list[str]:
        selector = fs.FileSelector(f"{self._root}/{_COMMITS}", allow_not_found=True)
        listed = (info.base_name for info in self._fs.get_file_info(selector) if info.type is fs.FileType.File)
        return sorted(name.removesuffix(_END) for name in listed if name.endswith(_END))

    def read(self, name: str) -> HistoryCommit | None:
        """Read one commit; None if it does not exist. Raises HistoryDamaged, NewerFormat."""
        path = f"{self._root}/{_COMMITS}/{name}{_END}"
        try:
            with self._fs.open_input_stream(path) as stream:
                raw = stream.read()
        except FileNotFoundError:
            return None
        try:
            commit = msgspec.json.decode(raw, type=HistoryCommit)
        except msgspec.DecodeError as error:
            raise HistoryDamaged(path, str(error)) from None
        check_format(commit.format, FORMAT_VERSION, path)
        return commit

    def commit(self, name: str, commit: HistoryCommit) -> None:
        """Write a commit so that it appears whole; replace a commit of the same name."""
        folder = f"{self._root}/{_COMMITS}"
        self._fs.create_dir(folder, recursive=True)
        path = f"{folder}/{name}{_END}"
        local = isinstance(self._fs, fs.LocalFileSystem)
        written = f"{folder}/.{uuid4().hex}" if local else path  # an object appears when its stream is closed
        with self._fs.open_output_stream(written) as stream:
            stream.write(msgspec.json.encode(commit))
        if local:
            self._fs.move(written, path)

    def drop_commit(self, name: str) -> None:
        """Delete a commit, if it exists."""
        self._drop(f"{self._root}/{_COMMITS}/{name}{_END}")

    def drop_file(self, file: str) -> None:
        """Delete a data file, if it exists."""
        self._drop(self.path(file))

    def _drop(self, path: str) -> None:
        try:
            self._fs.delete_file(path)
        except FileNotFoundError:
            return

    def listed(self, below: str = "") -> dict[str, int]:
        """List the Parquet data files, committed or not, with the time of writing in Unix ms."""
        base = f"{self._root}/{_DATA}"
        selector = fs.FileSelector(f"{base}/{below}".rstrip("/"), allow_not_found=True, recursive=True)
        return {
            str(PurePosixPath(info.path).relative_to(PurePosixPath(base))): info.mtime_ns // 1_000_000
            for info in self._fs.get_file_info(selector)
            if info.type is fs.FileType.File and info.path.endswith(".parquet") and "/_temporary/" not in info.path
        }

    def attempts(self) -> dict[str, int]:
        """List the folders of batches, complete or not, with the time of the newest file in each, in Unix ms."""
        base = PurePosixPath(f"{self._root}/{_DATA}")
        selector = fs.FileSelector(str(base), allow_not_found=True, recursive=True)
        found: dict[str, int] = {}
        for info in self._fs.get_file_info(selector):
            top = PurePosixPath(info.path).relative_to(base).parts[0]
            if top.startswith("batch="):
                found[top] = max(found.get(top, 0), (info.mtime_ns or 0) // 1_000_000)
        return found

    def drop_attempt(self, folder: str) -> None:
        """Delete the folder of an attempt with all its files, if it exists."""
        try:
            self._fs.delete_dir(self.path(folder))
        except FileNotFoundError:
            return

    def make_folder(self, file: str) -> None:
        """Create the folder of a data file."""
        self._fs.create_dir(str(PurePosixPath(self.path(file)).parent), recursive=True)


def live(commits: Iterable[HistoryCommit]) -> set[str]:
    """Return the files that count."""
    known = list(commits)
    gone = {file for commit in known for file in commit.removes}
    return {file for commit in known for file in commit.adds} - gone


def hour_of(file: str) -> str:
    """Return the hour (`2026-05-01T12`, UTC) in which the windows of a file begin; empty if its path names none."""
    parts = (part for part in PurePosixPath(file).parts if part.startswith("hour="))
    return next(parts, "hour=").removeprefix("hour=")

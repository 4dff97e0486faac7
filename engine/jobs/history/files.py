"""The files of a history and who says which of them count: commits, each of which adds files and takes others away.

    <root>/data/hour=2026-05-01T12/<anything>/part-....parquet     never changed once written
    <root>/commits/<name>.json                                      appears whole, or not at all

What counts is what commits add and none takes away. So a file that nobody committed is not there, a batch that is
written again finds its commit and stays, and a compaction replaces files in the one moment in which its commit appears.
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
        return f"{self.path} is no commit of a history ({self.why}): move it away; what it added is then left out"


class HistoryCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Files of `data` (paths below it) that count from now on, and such that do so no longer."""

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
        """What reads `path`."""
        return self._fs

    def path(self, file: str) -> str:
        """Give the path of a file of data, for `filesystem`."""
        return f"{self._root}/{_DATA}/{file}"

    def data_uri(self) -> str:
        """Give the URI below which data is written, as Spark takes it."""
        return f"{self.uri}/{_DATA}"

    def commits(self) -> dict[str, HistoryCommit]:
        """Read all commits by name.

        What took the place of one that goes away or is emptied meanwhile may have come after the listing: it is listed
        again until two listings say the same.
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
        """Read one commit, None where it is not there. Raises HistoryDamaged, NewerFormat."""
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
        """Have a commit appear, in one move; one of the same name is replaced."""
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
        """Remove a commit; one that is not there is well."""
        self._drop(f"{self._root}/{_COMMITS}/{name}{_END}")

    def drop_file(self, file: str) -> None:
        """Remove a file of data; one that is not there is well."""
        self._drop(self.path(file))

    def _drop(self, path: str) -> None:
        try:
            self._fs.delete_file(path)
        except FileNotFoundError:
            return

    def listed(self, below: str = "") -> dict[str, int]:
        """List the Parquet files of data, committed or not, with the Unix ms at which each was written."""
        base = f"{self._root}/{_DATA}"
        selector = fs.FileSelector(f"{base}/{below}".rstrip("/"), allow_not_found=True, recursive=True)
        return {
            str(PurePosixPath(info.path).relative_to(PurePosixPath(base))): info.mtime_ns // 1_000_000
            for info in self._fs.get_file_info(selector)
            if info.type is fs.FileType.File and info.path.endswith(".parquet") and "/_temporary/" not in info.path
        }

    def attempts(self) -> dict[str, int]:
        """List the folders in which batches were written, whole or not, with the Unix ms of the newest file in each."""
        base = PurePosixPath(f"{self._root}/{_DATA}")
        selector = fs.FileSelector(str(base), allow_not_found=True, recursive=True)
        found: dict[str, int] = {}
        for info in self._fs.get_file_info(selector):
            top = PurePosixPath(info.path).relative_to(base).parts[0]
            if top.startswith("batch="):
                found[top] = max(found.get(top, 0), (info.mtime_ns or 0) // 1_000_000)
        return found

    def drop_attempt(self, folder: str) -> None:
        """Remove the folder of an attempt with all that is in it; one that is not there is well."""
        try:
            self._fs.delete_dir(self.path(folder))
        except FileNotFoundError:
            return

    def make_folder(self, file: str) -> None:
        """Make the folder that a file of data lies in."""
        self._fs.create_dir(str(PurePosixPath(self.path(file)).parent), recursive=True)


def live(commits: Iterable[HistoryCommit]) -> set[str]:
    """Say which files count."""
    known = list(commits)
    gone = {file for commit in known for file in commit.removes}
    return {file for commit in known for file in commit.adds} - gone


def hour_of(file: str) -> str:
    """Say which hour (`2026-05-01T12`, UTC) the windows of a file begin in; empty for a file that does not say."""
    parts = (part for part in PurePosixPath(file).parts if part.startswith("hour="))
    return next(parts, "hour=").removeprefix("hour=")

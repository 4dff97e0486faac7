"""A file for the output of a command, bounded in size: the log of a mirror in the background."""

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from actors.local.ending import STDERR, STDOUT
from engine.base.errors import MirrorError

FILE_BYTES: Final = 2 * 1024 * 1024
OLD_FILES: Final = 2
"""Number of old files: `NAME.1` is the newer one, `NAME.2` the older one."""


class NoOutputFile(MirrorError):
    """The output file of a command cannot be written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"{self.path} cannot be written ({self.why}); give a file in a folder that exists: --log-file FILE"


class OutputFile:
    """Appends standard output and standard error of this process to a file that only its owner may read.

    A full file is renamed, not cut, so no output is lost during the change. The constructor raises NoOutputFile.
    """

    def __init__(self, path: Path, most_bytes: int = FILE_BYTES, old_files: int = OLD_FILES) -> None:
        self._path, self._most_bytes, self._old_files = path, most_bytes, old_files
        try:
            opened = self._open()
        except OSError as error:
            raise NoOutputFile(path, error.strerror or str(error)) from None
        self._before = [(number, os.dup(number)) for number in (STDOUT, STDERR)]
        self._print_to(opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the former standard output and standard error."""
        for number, kept in self._before:
            os.dup2(kept, number)
            os.close(kept)

    def rotate_if_full(self) -> None:
        """Rename the file and begin a new one if it is full; call this about once a second."""
        if os.fstat(STDOUT).st_size < self._most_bytes:
            return
        for age in range(self._old_files, 0, -1):
            younger = self._aged(age - 1)
            if younger.exists():
                younger.replace(self._aged(age))
        self._print_to(self._open())

    def _aged(self, age: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{age}") if age else self._path

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _print_to(self, opened: int) -> None:
        for number, _ in self._before:
            os.dup2(opened, number)
        os.close(opened)

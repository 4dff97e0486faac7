"""Errors of tables, and the one place that turns errors of deltalake, pyarrow and the storage into them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from engine.base.errors import MirrorError
from engine.jobs.runtime.storage_check import error_line

_OF_THE_STORAGE = (
    "Generic S3 error",
    "Generic GCS error",
    "Generic LocalFileSystem error",
    "ObjectStore",
    "Invalid table location",
)
_TOO_NEW = (
    "Unsupported: Feature",
    "Unsupported table features",
    "Table features must be specified",
    "reader version",
    "writer version",
)
"""Parts of what deltalake says of a table whose protocol it does not know, when it reads or commits."""
_OF_OTHERS = (
    "concurrent transaction",
    "Concurrent transaction",
    "Invalid table version",
    "Metadata changed since",
    "Protocol changed since",
)
"""Parts of what deltalake says if another process committed first. The last two: it created the table, or added columns
to it."""


class TableError(MirrorError):
    """A table cannot be used: where it is, and why."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place, self.why = place, why


class TableMissing(TableError):
    """Nobody has created the table yet."""

    def __str__(self) -> str:
        return f"{self.place}: there is no table ({self.why}); raymirror creates it when it has something to store"


class TableDamaged(TableError):
    """The log or a file of the table cannot be read, or is not what raymirror writes."""

    def __str__(self) -> str:
        return (
            f"{self.place}: the table is damaged ({self.why}); restore the folder from a backup,"
            " or move it away: raymirror then begins an empty table"
        )


class TableTooNew(TableError):
    """The table needs a feature of Delta Lake that this version does not know; it is whole."""

    def __str__(self) -> str:
        return (
            f"{self.place}: a newer program changed this table to a protocol that this raymirror does not know"
            f" ({self.why}); install a newer raymirror, or move the folder away: raymirror then begins an empty table"
        )


class TableUnreachable(TableError):
    """The storage did not do what it was asked for."""

    def __str__(self) -> str:
        return (
            f"{self.place}: the storage does not work ({self.why});"
            " check that this node reaches it, may read and write there, and that it has space"
        )


class TableConflict(TableError):
    """Another process changed what this commit was based on; the table is as that process left it."""

    def __str__(self) -> str:
        return f"{self.place}: another process changed the same part of the table first ({self.why}); try again"


class FilesLost(TableConflict):
    """Files were deleted before their commit, because more than an hour passed since they were written."""


class StaleCommit(MirrorError):
    """A batch that comes after later batches of the same writer: this writer was replaced."""

    def __init__(self, place: str, app: str, version: int, committed: int) -> None:
        super().__init__(place, app, version, committed)
        self.place, self.app, self.version, self.committed = place, app, version, committed

    def __str__(self) -> str:
        return (
            f"{self.place}: batch {self.version} of {self.app} is refused because batch {self.committed} is committed"
            " already: another process continues the work of this one"
        )


class OtherBatch(MirrorError):
    """A batch whose number another process has committed for a batch that was made of something else."""

    def __init__(self, place: str, app: str, number: int) -> None:
        super().__init__(place, app, number)
        self.place, self.app, self.number = place, app, number

    def __str__(self) -> str:
        return (
            f"{self.place}: batch {self.number} of {self.app} is refused because another process has committed a batch"
            " of this number from other records: two processes used one checkpoint"
        )


_KINDS: tuple[tuple[type[TableError], tuple[str, ...]], ...] = (
    (TableConflict, _OF_OTHERS),
    (TableUnreachable, _OF_THE_STORAGE),
    (TableTooNew, _TOO_NEW),
)


@contextmanager
def table_errors(place: str, *, missing_passes: bool = False) -> Iterator[None]:
    """Raise an error of deltalake, pyarrow or the storage as a TableError that names the place.

    `missing_passes`: the caller handles FileNotFoundError itself.
    """
    try:
        yield
    except TableNotFoundError as error:
        raise TableMissing(place, error_line(error)) from None
    except CommitFailedError as error:
        raise _kind(str(error), TableUnreachable)(place, error_line(error)) from None
    except DeltaError as error:
        raise _kind(str(error), TableDamaged)(place, error_line(error)) from None
    except OSError as error:
        if missing_passes and isinstance(error, FileNotFoundError):
            raise
        raise TableUnreachable(place, error_line(error)) from None
    except Exception as error:
        if not _is_of_arrow(error):
            raise
        raise TableDamaged(place, error_line(error)) from None


@contextmanager
def told_by(failed: Callable[[str, str], MirrorError], where: str, what: str) -> Iterator[None]:
    """Raise an error of a table, or of its storage, as `failed(where, ...)`; `what`: what could not be done."""
    try:
        yield
    except TableError as error:
        raise failed(where, f"{what}: {error.why}") from None
    except MirrorError as error:
        raise failed(where, f"{what}: {error}") from None


def _kind(text: str, otherwise: type[TableError]) -> type[TableError]:
    """Return what an error of deltalake is, by its text."""
    return next((kind for kind, parts in _KINDS if any(one in text for one in parts)), otherwise)


def _is_of_arrow(error: Exception) -> bool:
    """Whether pyarrow raised an error; a process that has not imported pyarrow need not do it for that."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(error, pyarrow.ArrowException)

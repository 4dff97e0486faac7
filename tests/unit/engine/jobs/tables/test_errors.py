"""Errors of deltalake, pyarrow and the storage, as people read them."""

import pickle

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError

from engine.base.errors import MirrorError
from engine.jobs.tables.errors import (
    StaleCommit,
    TableConflict,
    TableDamaged,
    TableError,
    TableMissing,
    TableTooNew,
    TableUnreachable,
    table_errors,
)

CASES: list[tuple[Exception, type[TableError]]] = [
    (TableNotFoundError("no log"), TableMissing),
    (CommitFailedError("a concurrent transaction deleted data this operation read"), TableConflict),
    (CommitFailedError("Failed to commit transaction: Metadata changed since last commit."), TableConflict),
    (DeltaError("Protocol changed since last commit: two writers create one table"), TableConflict),
    (CommitFailedError("Generic S3 error: timed out"), TableUnreachable),
    (DeltaError("Invalid table version: 2"), TableConflict),
    (DeltaError("Kernel error: Generic S3 error: refused\n   0: <unknown>"), TableUnreachable),
    (DeltaError("Kernel error: Json error: Truncated record"), TableDamaged),
    (DeltaProtocolError("reader version 9"), TableTooNew),
    (DeltaError("Kernel error: Unsupported: Feature 'v9' is not supported"), TableTooNew),
    (CommitFailedError('Unsupported table features required: [Unknown("v9")]'), TableTooNew),
    (OSError(28, "No space left on device"), TableUnreachable),
    (FileNotFoundError("part-0.parquet"), TableUnreachable),
    (pa.ArrowInvalid("Parquet magic bytes not found"), TableDamaged),
    (OSError(), TableUnreachable),
]


@pytest.mark.parametrize(("raised", "kind"), CASES, ids=str)
def test_an_error_says_where_and_why_in_one_line(raised: Exception, kind: type[TableError]) -> None:
    with pytest.raises(kind) as found, table_errors("file:/place"):
        raise raised
    text = str(found.value)
    assert text.startswith("file:/place: ")
    assert "\n" not in text
    assert str(pickle.loads(pickle.dumps(found.value))) == text


def test_the_cause_of_an_error_in_a_bucket_is_told() -> None:
    """Deltalake writes each cause on a line of its own."""
    cause = "\n      \x1b[31m↳\x1b[0m "
    with (
        pytest.raises(TableUnreachable, match=r"\(Kernel error -> Generic S3 error: Connection refused\)"),
        table_errors("s3a://b/t"),
    ):
        raise OSError(f"Kernel error -> Generic S3 error{cause}Connection refused\n")


def test_a_missing_file_passes_where_the_caller_handles_it() -> None:
    with pytest.raises(FileNotFoundError), table_errors("file:/place", missing_passes=True):
        raise FileNotFoundError("part-0.parquet")
    with pytest.raises(TableUnreachable), table_errors("file:/place", missing_passes=True):
        raise OSError(5, "Input/output error")


def test_errors_of_raymirror_stay_what_they_are() -> None:
    stale = StaleCommit("file:/place", "lag A->B", 3, 5)
    refused = "batch 3 of lag A->B is refused because batch 5 is committed"
    with pytest.raises(StaleCommit, match=refused) as found, table_errors("file:/place"):
        raise stale
    assert isinstance(found.value, MirrorError)
    assert pickle.loads(pickle.dumps(stale)).args == stale.args

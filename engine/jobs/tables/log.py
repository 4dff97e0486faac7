"""The log of a Delta table by deltalake: creates and opens a table, and knows which batches are committed.

`deltalake` keeps the log: a commit is a file that only one process can create. Threads of one process commit one after
another, because each waits for the lock of the table. A commit may have a transaction, the name of a writer and a
number that grows: a batch that comes again finds its number and changes nothing. Imports no pyarrow.

Whether there is a table is seen by opening it. `DeltaTable.is_deltatable` lets no other thread of the process run until
the store answers: beside a store that is silent, event loops stood still for two minutes (deltalake 1.6.3).
"""

import threading
from collections import defaultdict
from hashlib import sha256

import msgspec
from deltalake import DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import TableNotFoundError

from engine.core.formats import check_format
from engine.jobs.runtime.storage_access import access_of
from engine.jobs.runtime.storage_check import error_line
from engine.jobs.runtime.storage_files import delta_uri
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.errors import (
    OtherBatch,
    StaleCommit,
    TableConflict,
    TableDamaged,
    TableMissing,
    TableUnreachable,
    table_errors,
)

FORMAT = "raymirror.format"
"""The property of a table with the version of its format."""
GRACE_S = 900
"""Seconds that a file stays after it was replaced, for readers that started before."""
ORPHAN_H = 1
"""Hours after which a file without a commit is deleted, and an empty folder: no writer takes as long to its commit."""
_STATISTICS = "delta.dataSkippingStatsColumns"
"""The property with the columns whose least and most are in the log. Without it deltalake's own reader compares every
other column with NULL, and finds no row as soon as a query filters by one."""
TRIES = 10
PROPERTIES = {
    "delta.deletedFileRetentionDuration": f"interval {GRACE_S} seconds",
    # The log: a summary (a checkpoint, in Delta's words) every 50 commits; commits before it go after a while.
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": f"interval {GRACE_S} seconds",
    "delta.enableExpiredLogCleanup": "true",
}


class Batch(msgspec.Struct, frozen=True):
    """The transaction of a commit: numbers of one writer grow, and each is committed once.

    `writer` must contain the id of what counts (a checkpoint's id), since a new one counts from 0 again. `owner`: a
    name without that id; `committed(owner)` then tells whether it ever wrote. `made_of`: what the batch was made of; a
    batch of the same number that was made of something else is refused. Empty: not compared.
    """

    writer: str
    number: int
    owner: str = ""
    made_of: str = ""

    def transactions(self) -> list[Transaction]:
        """Return what a commit of the batch says of it."""
        found = [Transaction(self.writer, self.number)]
        found += [Transaction(self.owner, 0)] if self.owner else []
        return [*found, Transaction(self.digest_name, self.digest)] if self.made_of else found

    @property
    def digest_name(self) -> str:
        """The name of the transaction whose number is `digest`."""
        return f"{self.writer} made of"

    @property
    def digest(self) -> int:
        """The batch's number, then three bytes of a digest of `made_of`: numbers of a transaction must grow."""
        return self.number << 24 | int.from_bytes(sha256(self.made_of.encode()).digest()[:3])


_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_LOCKS_LOCK = threading.Lock()


def lock_of(uri: str) -> threading.Lock:
    """Return the lock of a table in this process."""
    with _LOCKS_LOCK:
        return _LOCKS[uri]


def create(uri: str, spec: TableSpec, schema: Schema) -> DeltaTable:
    """Create a table of these columns unless it exists; add those that it lacks. Others may do so at the same moment.

    Raises TableUnreachable, and what `opened` raises.
    """
    for attempt in range(TRIES):
        try:
            with table_errors(uri):
                return _created(uri, spec, schema)
        except TableConflict:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _created(uri: str, spec: TableSpec, schema: Schema) -> DeltaTable:
    try:
        handle = opened(uri, spec)
    except TableMissing:
        _create(uri, spec, schema)
        handle = opened(uri, spec)
    there = {field.name for field in handle.schema().fields}
    if lacking := [Field(one.name, one.type) for one in schema.fields if one.name not in there]:
        handle.alter.add_columns(lacking)
    return handle


def _create(uri: str, spec: TableSpec, schema: Schema) -> None:
    try:
        DeltaTable.create(
            delta_uri(uri),
            schema,
            mode="ignore",
            partition_by=[spec.partition],
            name=spec.name,
            description=spec.meaning,
            configuration={FORMAT: str(spec.format), _STATISTICS: spec.span, **PROPERTIES},
            storage_options=access_of(uri),
            raise_if_key_not_exists=False,
        )
    except TableNotFoundError as error:  # what deltalake says if it cannot create a folder
        raise TableUnreachable(uri, error_line(error)) from None


def opened(uri: str, spec: TableSpec) -> DeltaTable:
    """Open the newest version of a table. Raises TableMissing, TableDamaged, NewerFormat, and what deltalake raises."""
    try:
        handle = DeltaTable(delta_uri(uri), storage_options=access_of(uri))
    except TableNotFoundError as error:
        raise TableMissing(uri, error_line(error)) from None
    check(handle, uri, spec)
    return handle


def check(handle: DeltaTable, uri: str, spec: TableSpec) -> None:
    """Refuse what this version of raymirror cannot read. Raises TableDamaged, NewerFormat."""
    found = handle.metadata().configuration.get(FORMAT, "")
    if not found.isdigit():
        raise TableDamaged(uri, f"it has no property {FORMAT}: raymirror did not create it")
    check_format(int(found), spec.format, uri)


def is_committed(handle: DeltaTable, uri: str, batch: Batch) -> bool:
    """Whether a batch is in this version of the table.

    Raises StaleCommit if a later batch of its writer is, OtherBatch if one of its number that was made of other things.
    """
    last = handle.transaction_version(batch.writer)
    if last is not None and last > batch.number:
        raise StaleCommit(uri, batch.writer, batch.number, last)
    if last != batch.number:
        return False
    digest = handle.transaction_version(batch.digest_name) if batch.made_of else None
    if digest not in (None, batch.digest):  # None: an earlier version committed it
        raise OtherBatch(uri, batch.writer, batch.number)
    return True

"""Maintains a table while others write and read it: folds small files, deletes old partitions and replaced files.

Every step is one commit or the deletion of files that nobody reads, so an interruption at any point leaves the rows as
they were. If two processes maintain one table at once, the second commit is refused, and the next round looks again.
"""

from engine.jobs.tables.errors import TableConflict, table_errors
from engine.jobs.tables.files import DataFile
from engine.jobs.tables.options import CareOptions, CareReport, expiry_ms
from engine.jobs.tables.reading import EVER, Merge, in_order, stretches
from engine.jobs.tables.table import Table, TableSnapshot

_SMALL_FILES = 8
_MOST_FILES = 100
_SHARE = 4


def care(table: Table, options: CareOptions, now_ms: int, merge: Merge | None = None) -> CareReport:
    """Fold, expire and vacuum a table once. `merge` drops rows that do not count. Raises TableError, NewerFormat."""
    folded, refused = fold(table, now_ms, merge)
    before_ms = expiry_ms(_newest(table), now_ms, round(options.keep_s * 1000)) if options.keep_s else None
    expired, late = expire(table, before_ms) if before_ms is not None else (0, 0)
    return CareReport(folded=folded, expired=expired, deleted=table.vacuum(now_ms), conflicts=refused + late)


def _newest(table: Table) -> list[int]:
    """Return the time of the newest row of each partition."""
    lasts = ([file.last for file in files if file.last is not None] for files in table.snapshot().partitions().values())
    return [max(found) for found in lasts if found]


def fold(table: Table, now_ms: int, merge: Merge | None = None) -> tuple[int, int]:
    """Make one file of the files of each partition that has too many; return the partitions done, and refused ones."""
    now = table.spec.partition_of(now_ms)
    found = table.snapshot().partitions()
    wanted = [partition for partition, files in found.items() if is_worth_it(files, is_past=partition < now)]
    done = sum(_fold_one(table, partition, merge) for partition in wanted)
    return done, len(wanted) - done


def is_worth_it(files: list[DataFile], *, is_past: bool) -> bool:
    """Whether a partition should be folded: a past one if it has several files, the present one at times.

    The present partition is folded when its small files are many and make up a fifth of it, or when they are very many:
    otherwise each round would write again what it already folded.
    """
    if is_past or len(files) < 2:
        return len(files) > 1
    sizes = sorted(file.size for file in files)
    small, big = sizes[:-1], sizes[-1]
    return len(small) >= _MOST_FILES or (len(small) >= _SMALL_FILES and sum(small) * _SHARE >= big)


def _fold_one(table: Table, partition: str, merge: Merge | None) -> bool:
    """Replace the files of a partition by one file; return False if another process changed the table meanwhile."""
    snapshot = table.snapshot()
    files = snapshot.partitions().get(partition, [])
    rows = stretches(table, files, snapshot.schema, EVER, merge or in_order(table.spec.span))
    try:
        with table_errors(table.uri, missing_passes=True):
            made = table.files.write("folded", partition, (some for _, some in rows))
    except FileNotFoundError as error:
        table.still_wants(files, partition, error)  # else: they were replaced, and a quarter of an hour has passed
        return False
    return _replace(table, snapshot, partition, made)


def expire(table: Table, before_ms: int) -> tuple[int, int]:
    """Take out whole partitions that end before a Unix time in ms; return how many, and how many were refused."""
    first = table.spec.partition_of(before_ms)
    old = [partition for partition in table.snapshot().partitions() if partition < first]
    done = sum(_replace(table, table.snapshot(), partition, None) for partition in old)
    return done, len(old) - done


def _replace(table: Table, snapshot: TableSnapshot, partition: str, made: DataFile | None) -> bool:
    try:
        table.replace(snapshot, partition, [made] if made is not None else [])
    except TableConflict:
        if made is None:
            return False
        if made.path in {file.path for file in table.snapshot().files}:
            return True  # an answer of the store was lost: its client asked again, and met its own commit
        table.files.drop(made.path)
        return False
    return True

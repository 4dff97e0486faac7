"""Decides whether the next records to copy are missing in the source log."""

import msgspec


class MissingRecords(msgspec.Struct, frozen=True):
    """Source offsets `first` to `last` (inclusive) that are not in the log, and the cause."""

    first: int
    last: int
    cause: str


def missing_records(source_next: int, log_start: int, log_end: int) -> MissingRecords | None:
    """Return the records missing in a log from `log_start` to `log_end` for a copy at `source_next`; None if none.

    After a truncation the missing records are the copied ones that the source no longer has.
    """
    if source_next < log_start:
        cause = "the source's log start passed the position: retention or deleted records"
        return MissingRecords(source_next, log_start - 1, cause)
    if source_next > log_end:
        return MissingRecords(log_end, source_next - 1, "the source ends before the position: it was truncated")
    return None

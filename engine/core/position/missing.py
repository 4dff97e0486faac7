"""Decides whether a source log lacks the records that would be copied next."""

import msgspec


class MissingRecords(msgspec.Struct, frozen=True):
    """Source offsets `first` to `last`, both inclusive, that are not in the log, and why."""

    first: int
    last: int
    cause: str


def missing_records(source_next: int, log_start: int, log_end: int) -> MissingRecords | None:
    """Return what a log from `log_start` to `log_end` lacks for a copy that continues at `source_next`; None: nothing.

    Behind a truncated end the missing records are those that were copied and are not there any more.
    """
    if source_next < log_start:
        cause = "the source's log start passed the position: retention or deleted records"
        return MissingRecords(source_next, log_start - 1, cause)
    if source_next > log_end:
        return MissingRecords(log_end, source_next - 1, "the source ends before the position: it was truncated")
    return None

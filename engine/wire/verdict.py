"""Decides how a source batch travels: with a restamped header, re-encoded, or not at all."""

import enum

from engine.wire.header import CONTROL_BIT, LOG_APPEND_BIT, BatchHeader


class Verdict(enum.Enum):
    """PASS: restamp the header only. REENCODE: rewrite the records. SKIP: copy nothing of the batch."""

    PASS = "pass"
    REENCODE = "reencode"
    SKIP = "skip"


class Reason(enum.Enum):
    """The reason why a batch does not pass."""

    BEFORE_FETCH_OFFSET = "before_fetch_offset"
    CONTROL = "control"
    ABORTED = "aborted"
    EMPTIED = "emptied"
    MAGIC = "magic"
    MID_BATCH = "mid_batch"
    OFFSET_GAPS = "offset_gaps"
    LOG_APPEND_TIME = "log_append_time"
    TOO_LARGE = "too_large"
    OTHER_CODEC = "other_codec"


_PASS = (Verdict.PASS, None)
_BEFORE_FETCH_OFFSET = (Verdict.SKIP, Reason.BEFORE_FETCH_OFFSET)
_CONTROL = (Verdict.SKIP, Reason.CONTROL)
_ABORTED = (Verdict.SKIP, Reason.ABORTED)
_EMPTIED = (Verdict.SKIP, Reason.EMPTIED)
_MAGIC = (Verdict.REENCODE, Reason.MAGIC)
_MID_BATCH = (Verdict.REENCODE, Reason.MID_BATCH)
_OFFSET_GAPS = (Verdict.REENCODE, Reason.OFFSET_GAPS)
_LOG_APPEND_TIME = (Verdict.REENCODE, Reason.LOG_APPEND_TIME)
_TOO_LARGE = (Verdict.REENCODE, Reason.TOO_LARGE)
_OTHER_CODEC = (Verdict.REENCODE, Reason.OTHER_CODEC)


def judge(
    header: BatchHeader, wanted_offset: int, max_batch_bytes: int, aborted: bool, codec: int | None = None
) -> tuple[Verdict, Reason | None]:
    """Return how the batch travels; the first rule that holds decides. `codec`: the only one that passes; None: all.

    | order | verdict  | reason              | because                                                               |
    | ----- | -------- | ------------------- | --------------------------------------------------------------------- |
    | 1     | SKIP     | BEFORE_FETCH_OFFSET | a fetch returns whole batches; this one ends before the offset         |
    | 2     | SKIP     | CONTROL             | a broker refuses control batches from clients                          |
    | 3     | SKIP     | ABORTED             | read_committed: rolled back at the source                              |
    | 4     | SKIP     | EMPTIED             | the cleaner took every record and kept the header                      |
    | 5     | REENCODE | MAGIC               | record formats 0 and 1 have no v2 header to restamp                    |
    | 6     | REENCODE | MID_BATCH           | its first records are below the wanted offset                          |
    | 7     | REENCODE | OFFSET_GAPS         | a broker refuses last_offset_delta + 1 != record count                 |
    | 8     | REENCODE | LOG_APPEND_TIME     | a broker refuses that timestamp type from a producer                   |
    | 9     | REENCODE | TOO_LARGE           | beyond the target's max.message.bytes: split                           |
    | 10    | REENCODE | OTHER_CODEC         | the user wishes another compression (compression.type)                 |
    | 11    | PASS     | -                   | a delete horizon too: its bit is cleared, deltas keep their base       |
    """
    base_offset = header.base_offset
    last_offset_delta = header.last_offset_delta
    attributes = header.attributes
    if base_offset + last_offset_delta < wanted_offset:
        return _BEFORE_FETCH_OFFSET
    if attributes & CONTROL_BIT:
        return _CONTROL
    if aborted:
        return _ABORTED
    if header.record_count == 0:
        return _EMPTIED
    if header.magic < 2:
        return _MAGIC
    if base_offset < wanted_offset:
        return _MID_BATCH
    if header.record_count != last_offset_delta + 1:
        return _OFFSET_GAPS
    if attributes & LOG_APPEND_BIT:
        return _LOG_APPEND_TIME
    if header.batch_length + 12 > max_batch_bytes:
        return _TOO_LARGE
    if codec is not None and header.codec != codec:
        return _OTHER_CODEC
    return _PASS

"""Surveys the bytes of one fetched partition: stretches of batches that pass, without an object for each small batch.

A survey stops at the first irregular batch: one that is damaged, malformed or in another format, that does not pass
(`engine/wire/verdict.py`), or whose transaction is in doubt. The caller judges that batch by itself, and continues
behind it. So the survey has no words for errors, and no verdict but PASS.
"""

import msgspec

from engine.base.errors import WireError
from engine.wire import native
from engine.wire.batch import check_crc, judge, split_batches
from engine.wire.codecs import ZSTD
from engine.wire.header import BatchHeader, Buffer
from engine.wire.verdict import Verdict

_LAST_OFFSET = (1 << 63) - 1


class SurveyRules(msgspec.Struct, frozen=True, kw_only=True):
    """How batches are judged and grouped; all sizes are those of whole batches in bytes.

    `small_plain`, `small_compressed`: batches up to these sizes go into one stretch. `committed`: no transaction of
    these batches was aborted, so a transactional batch is like any other.
    """

    max_batch_bytes: int
    small_plain: int
    small_compressed: int
    committed: bool


class BatchStretch(msgspec.Struct, frozen=True, gc=False):
    """Batches in `buffer[at:end]` that pass, with consecutive source offsets: one batch of any size, or small ones.

    `codec` is that of the first compressed batch, NONE if all are plain. Timestamps in ms: of the first record, and the
    newest one. `leader_epoch` is the highest of the batches. Pass arguments by position.
    """

    at: int
    end: int
    batches: int
    base_offset: int
    record_count: int
    codec: int
    first_timestamp: int
    max_timestamp: int
    leader_epoch: int

    @property
    def next_offset(self) -> int:
        """The source offset after the last record."""
        return self.base_offset + self.record_count


class Survey(msgspec.Struct, frozen=True):
    """The stretches up to `at`, where an irregular batch begins, or, if `is_done`, nothing or a truncated batch.

    `expected`: the lowest base offset that the batch at `at` may have.
    """

    stretches: list[BatchStretch]
    at: int
    expected: int
    is_done: bool


def survey(
    buffer: Buffer, start: int, end: int, rules: SurveyRules, *, wanted: int, expected: int = 0, is_first: bool = True
) -> Survey:
    """Survey `buffer[start:end]`; each batch in a stretch has its CRC checked.

    `wanted`: the first source offset to copy. `expected`: of the survey before, if this one continues it. `is_first`:
    the batch at `start` is the first one fetched, so it is irregular if it is truncated.
    """
    if native.module is None:
        return _survey(buffer, start, end, rules, wanted, expected, is_first)
    rows, at, expected, is_done = native.module.survey(
        buffer,
        start,
        end,
        expected,
        is_first,
        wanted,
        rules.max_batch_bytes,
        rules.small_plain,
        rules.small_compressed,
        rules.committed,
    )
    return Survey([BatchStretch(*row) for row in rows], at, expected, is_done)


def _survey(
    buffer: Buffer, start: int, end: int, rules: SurveyRules, wanted: int, expected: int, is_first: bool
) -> Survey:
    stretches: list[BatchStretch] = []
    at, may_join = start, False
    try:
        for at, header in split_batches(buffer, start, end, "", -1, expected=expected, is_first=is_first):
            if not _passes(buffer, at, header, rules, wanted):
                return Survey(stretches, at, expected, False)
            is_small = header.codec <= ZSTD and header.size_bytes <= (
                rules.small_compressed if header.codec else rules.small_plain
            )
            if may_join and is_small and header.base_offset == expected:
                stretches[-1] = _joined(stretches[-1], header)
            else:
                stretches.append(_begun(at, header))
            at, expected, may_join = at + header.size_bytes, header.next_offset, is_small
    except WireError:
        return Survey(stretches, at, expected, False)
    return Survey(stretches, at, expected, True)


def _passes(buffer: Buffer, at: int, header: BatchHeader, rules: SurveyRules, wanted: int) -> bool:
    if header.is_transactional and not rules.committed:
        return False
    check_crc(buffer, at, header, "", -1)
    passes = judge(header, wanted, rules.max_batch_bytes, aborted=False)[0] is Verdict.PASS
    return passes and header.next_offset <= _LAST_OFFSET


def _begun(at: int, header: BatchHeader) -> BatchStretch:
    return BatchStretch(
        at,
        at + header.size_bytes,
        1,
        header.base_offset,
        header.record_count,
        header.codec,
        header.first_timestamp,
        header.max_timestamp,
        header.leader_epoch,
    )


def _joined(stretch: BatchStretch, header: BatchHeader) -> BatchStretch:
    return BatchStretch(
        stretch.at,
        stretch.end + header.size_bytes,
        stretch.batches + 1,
        stretch.base_offset,
        stretch.record_count + header.record_count,
        stretch.codec or header.codec,
        stretch.first_timestamp,
        max(stretch.max_timestamp, header.max_timestamp),
        max(stretch.leader_epoch, header.leader_epoch),
    )

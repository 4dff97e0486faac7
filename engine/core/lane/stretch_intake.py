"""Turns the bytes of one fetched partition into stretches of small batches, and single batches, for a lane.

A stretch costs the same with two batches and with ten thousand: its batches are judged by the survey of
`engine/wire/merging`, and none of them becomes an object. What a survey leaves out is sifted batch by batch.
"""

from collections.abc import Iterator

import msgspec

from engine.core.lane.intake import Step, Work, queue_one, sift
from engine.core.lane.lane import Lane
from engine.core.lane.pending_batch import BufferShare
from engine.wire.merging.survey import BatchStretch, SurveyRules, survey
from policies.rebatch import NO_BATCHES, SmallBatches


def take_in_stretches(lane: Lane, work: Work, lease: BufferShare) -> None:
    """Queue the batches, small ones as stretches if the lane merges batches.

    Raises what `sift` raises; the batches before the bad one are queued by then.
    """
    rules = lane.limits.rebatch
    for item in sift_stretches(work, NO_BATCHES if rules is None else rules.small):
        if isinstance(item, BatchStretch):
            lane.source_leader_epoch = max(lane.source_leader_epoch, item.leader_epoch)
            lane.add_stretch(item, work.buffer[item.at : item.end], lease.retain())
        else:
            queue_one(lane, work, item, lease)


def sift_stretches(work: Work, small: SmallBatches) -> Iterator[BatchStretch | Step]:
    """Yield everything that `sift` yields, in the same order; batches that pass come as stretches of one or more.

    The batches of a stretch pass, each with its CRC checked. Raises what `sift` raises, at the same batch. If batches
    get another codec, there are no stretches: most batches would be opened one by one anyway. If some are echoes, each
    batch is looked at.
    """
    if work.codec is not None or work.echoes:
        yield from sift(work, at_length=False)
        return
    at, expected, wanted, is_first = work.start, work.expected, work.wanted, True
    while True:
        rules = SurveyRules(
            max_batch_bytes=work.max_batch_bytes,
            small_plain=small.plain_bytes,
            small_compressed=small.compressed_bytes,
            committed=work.transactions.none_left,
        )
        found = survey(work.buffer, at, work.end, rules, wanted=wanted, expected=expected, is_first=is_first)
        for stretch in found.stretches:
            yield stretch
            wanted = stretch.next_offset
        if found.is_done:
            return
        rest = msgspec.structs.replace(work, start=found.at, wanted=wanted, expected=found.expected)
        step = next(sift(rest, at_length=False))
        yield step
        header, pieces = step[1], step[3]
        wanted = pieces[-1].next_offset if pieces else max(wanted, header.next_offset)
        at, expected, is_first = step[0] + header.size_bytes, header.next_offset, False

"""Recognises echoes: records of the source that raymirror itself has copied there, from the target of this lane.

    source of this lane   ... N N [D D D] N N [D] N      D: copied here from the target, batch by batch
    echoes                        (first, end), ...      by the offset map of that copy, so the set is exact and final

A batch holds the records of one producer, so an echo is a whole batch. The ranges are known before the lane fetches
anything, and they never change.
"""

from bisect import bisect_right

from engine.base.errors import MalformedBatch
from engine.wire.batch import BatchHeader

Echoes = tuple[tuple[int, int], ...]
"""Ranges of offsets, ascending and apart; each begins at its first offset and ends before its second."""


def is_echo(echoes: Echoes, header: BatchHeader, topic: str, partition: int) -> bool:
    """Whether a batch lies in the ranges. Raises MalformedBatch for a batch with records in and outside of them."""
    first, end = header.base_offset, header.next_offset
    at = bisect_right(echoes, end - 1, key=lambda one: one[0]) - 1
    if at < 0 or echoes[at][1] <= first:
        return False
    if echoes[at][0] <= first and end <= echoes[at][1]:
        return True
    raise MalformedBatch(topic, partition, first, f"a part of it was copied from the target: {echoes[at]}")

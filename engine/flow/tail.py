"""The batch headers behind a position, as few of them read as tell the rest."""

from collections.abc import Sequence

from engine.core.position import Position
from engine.core.resume import TailBatch
from engine.core.tail_end import from_end
from engine.flow.ports import Cluster
from policies.model import TopicPartition

_STEPS = 4
"""Markers passed on the way back to the last records: one is our own barrier's, more are of owners that did nothing."""


async def tail_headers(
    cluster: Cluster, partition: TopicPartition, position: Position, first: int, end: int
) -> Sequence[TailBatch]:
    """Return the headers from offset `first` (at or next to the position) up to `end`.

    The last batch of ours mostly tells the rest, however long (`core/tail_end.py`); only where it does not, all is
    read. Raises as `Cluster.read_headers` does.
    """
    at = end - 2  # the barrier's marker, and what lies before it
    for _ in range(_STEPS):
        if at <= max(first, position.target_next):
            break
        last = await cluster.read_headers(partition, at, end)
        if last and last[0].is_control:
            at = last[0].base_offset - 1
            continue
        whole = from_end(position, last)
        if whole is None:
            break
        before = await cluster.read_headers(partition, first, first + 1) if first < position.target_next else ()
        return *(batch for batch in before if batch.base_offset < position.target_next), *whole
    return await cluster.read_headers(partition, first, end)

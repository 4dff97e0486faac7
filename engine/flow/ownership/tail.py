"""Reads the batch headers after a position, only as many as are needed to know the rest."""

from collections.abc import Sequence

from engine.core.position.parting import may_be_late
from engine.core.position.position import Position
from engine.core.position.stored_tail import last_counted, reaches_begin, undone_from
from engine.core.position.tail_end import from_end
from engine.core.position.target_tail import Tail, TailBatch
from engine.flow.ports.ports import Cluster
from policies.model import TopicPartition

_STEPS = 4
"""Most markers to pass on the way back to the last records: one of this barrier, more of owners that copied nothing."""
_LOST = 100_000
"""Offsets read back to find the lane's last batch after the target lost records."""
_WINDOW, _WIDER = 10_000, 10
"""Offsets read back to find the start of a transaction, and the factor by which the window grows."""


async def tail_headers(
    cluster: Cluster, partition: TopicPartition, position: Position, start: int, end: int
) -> tuple[TailBatch, ...]:
    """Return the headers from the offset before the position to `end`; `start`: the log's start.

    In that place may be something else than what the owner left there: markers of later owners, or late requests of an
    earlier one, after an unclean election. Then the headers go further back. Raises as `Cluster.read_headers` does.
    """
    batches = tuple(await _behind(cluster, partition, position, start, end)) if end >= position.target_next else ()
    if not may_be_late(position, Tail(log_start=start, end=end, batches=batches)):
        return batches
    first = max(start, min(position.target_next - 1, end - _LOST))
    return tuple(await cluster.read_headers(partition, first, end))


async def _behind(
    cluster: Cluster, partition: TopicPartition, position: Position, start: int, end: int
) -> Sequence[TailBatch]:
    """Return the headers from the offset before the position to `end`.

    The lane's last batch mostly implies all batches before it (`core/position/tail_end.py`); if not, all are read.
    After an atomic position no record counts, but the records that the position counts must still be there: they are
    read, and their whole transaction if they were rolled back.
    """
    if position.atomic:
        return await _atomic(cluster, partition, position, start, end)
    first = max(start, position.target_next - 1)
    at = end - 2  # the barrier's marker, and the offset before it
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
        earlier = await cluster.read_headers(partition, first, first + 1) if first < position.target_next else ()
        return *(batch for batch in earlier if batch.base_offset < position.target_next), *whole
    return await cluster.read_headers(partition, first, end)


async def _atomic(
    cluster: Cluster, partition: TopicPartition, position: Position, start: int, end: int
) -> Sequence[TailBatch]:
    first = max(start, min(last_counted(position), position.target_next - 1))
    batches = await cluster.read_headers(partition, first, end)
    back = _WINDOW
    while undone_from(position, batches) is not None and first > start and not reaches_begin(position, batches):
        first = max(start, position.target_next - back)
        batches = await cluster.read_headers(partition, first, end)
        back *= _WIDER
    return batches


async def is_kept(cluster: Cluster, partition: TopicPartition, position: Position, start: int, end: int) -> bool:
    """Whether the records that an atomic position counts were committed. Raises as `Cluster.read_headers` does."""
    if not start < position.target_next <= end:
        return True
    last = await cluster.read_headers(partition, max(start, last_counted(position)), end)
    pending = any(batch.is_open and batch.producer_id == position.producer_id for batch in last)
    return not pending and undone_from(position, last) is None

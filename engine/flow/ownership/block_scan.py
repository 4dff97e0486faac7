"""Finds the offset map blocks of some lanes on a partition of the map topic, which holds blocks of many lanes.

A partition may hold hundreds of thousands of blocks, and the scan runs on the loop that copies. So it compares only the
bytes of keys, and stores only where each block begins (three numbers). Blocks that are needed whole are read again.

Blocks are in no transaction, so the log is read to its high watermark: no open transaction hides a block.
"""

from collections.abc import Collection, Mapping

from engine.base.clock import Turns, pause
from engine.core.offset_map.map_blocks import BlockPlace, decode_block, lane_key, read_place, split_key
from engine.core.offset_map.map_runs import MapBlock
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from policies.model import TopicPartition

Places = dict[int, BlockPlace]
"""Where the blocks of one lane begin, by number."""


async def find_blocks(
    cluster: Cluster,
    partition: TopicPartition,
    source: str,
    lanes: Collection[TopicPartition],
    *,
    rest_s: float = 0.0,
) -> dict[TopicPartition, Places]:
    """Find the blocks of some lanes of flows from `source`; unreadable blocks are left out.

    `rest_s`: seconds to pause after every few records; 0: no pause. Raises as `Cluster.read_log` does.
    """
    by_key = {lane_key(source, lane): lane for lane in lanes}
    found: dict[TopicPartition, Places] = {lane: {} for lane in lanes}
    first = (await cluster.offsets([partition], EARLIEST))[partition]
    end = (await cluster.offsets([partition], LATEST))[partition]
    async for records in cluster.read_log(partition, first, end, committed=False):
        for record in records:
            key = split_key(record.key)
            lane = by_key.get(key[0]) if key is not None else None
            if key is None or lane is None:
                continue
            found[lane].pop(key[1], None)
            if record.value is not None:
                try:
                    found[lane][key[1]] = read_place(record.value, record.offset)
                except ValueError:
                    continue
        if rest_s:
            await pause(rest_s)
    return found


async def read_blocks(
    cluster: Cluster, partition: TopicPartition, places: Mapping[int, BlockPlace]
) -> dict[int, MapBlock]:
    """Read the whole blocks that `find_blocks` found, by number. Raises as `Cluster.read_log` does."""
    numbers = {place.at: number for number, place in places.items()}
    blocks: dict[int, MapBlock] = {}
    if not numbers:
        return blocks
    turns = Turns()
    async for records in cluster.read_log(partition, min(numbers), max(numbers) + 1, committed=False):
        for record in records:
            number = numbers.get(record.offset)
            if number is not None and record.value is not None:
                try:
                    blocks[number] = decode_block(number, record.value)
                except ValueError:
                    continue
                await turns.rest()
    return blocks

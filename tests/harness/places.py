"""The offsets of records on both sides, read by stock consumers: translated offsets are compared with them."""

from typing import NamedTuple

from deploy.local.cluster import EmbeddedCluster
from engine.core.mm2.mm2_records import Checkpoint, decode_checkpoint
from tests.harness.admin import partition_count
from tests.harness.whole import read_whole


class Place(NamedTuple):
    """One record: its offset, and what tells it apart from all others."""

    offset: int
    record: tuple[bytes | None, bytes | None, int]


async def read_places(cluster: EmbeddedCluster, topic: str) -> dict[int, list[Place]]:
    """Read every committed record of a topic, in offset order; nothing where there is no topic. Raises TimeoutError."""
    numbers = range(await partition_count(cluster, topic))
    found: dict[int, list[Place]] = {number: [] for number in numbers}
    if not found:
        return found
    async for one in read_whole(cluster, topic, numbers, committed=True):
        found[one.partition].append(Place(one.offset, (one.key, one.value, one.timestamp)))
    return found


def next_at(places: list[Place], offset: int) -> Place | None:
    """Give the first record at or behind an offset, None at the end."""
    return next((place for place in places if place.offset >= offset), None)


def same_place(source: list[Place], source_offset: int, target: list[Place], target_offset: int) -> bool:
    """Whether a consumer at either offset reads the same record next, or nothing."""
    here, there = next_at(source, source_offset), next_at(target, target_offset)
    return (here and here.record) == (there and there.record)


async def every_checkpoint(cluster: EmbeddedCluster, topic: str, group: str | None = None) -> list[Checkpoint]:
    """Read all checkpoints that were ever written (of one group), older ones too, in the order of the log."""
    if not await partition_count(cluster, topic):
        return []
    records = read_whole(cluster, topic, [0], committed=False)
    found = [decode_checkpoint(one.key, one.value) async for one in records]
    return [one for one in found if group is None or one.group == group]

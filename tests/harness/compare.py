"""Reads source and target by aiokafka's stock consumer, without any code of the mirror, and compares them."""

from typing import NamedTuple

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import partition_count
from tests.harness.whole import read_whole


class Read(NamedTuple):
    """One record as a consumer sees it, without its offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


async def read_topic(
    cluster: EmbeddedCluster, topic: str, *, committed: bool = False, timestamps: bool = True
) -> dict[int, list[Read]]:
    """Read every partition to its present end, in offset order; raises TimeoutError."""
    numbers = range(await partition_count(cluster, topic))
    if not numbers:
        return {}
    records: dict[int, list[Read]] = {number: [] for number in numbers}
    async for one in read_whole(cluster, topic, numbers, committed=committed):
        found = Read(one.key, one.value, tuple(one.headers), one.timestamp if timestamps else None)
        records[one.partition].append(found)
    return records


async def assert_identical(
    source: EmbeddedCluster,
    target: EmbeddedCluster,
    topic: str,
    copied: str,
    *,
    committed: bool = False,
    timestamps: bool = True,
    after: dict[int, int] | None = None,
) -> int:
    """Compare every record: count, order, key, value, headers, timestamp; return how many there are.

    `after` leaves out that many records at the beginning of source partitions.
    """
    expected = await read_topic(source, topic, committed=committed, timestamps=timestamps)
    found = await read_topic(target, copied, timestamps=timestamps)
    assert expected.keys() == found.keys()
    for number, records in expected.items():
        _assert_equal(f"{topic}-{number}", records[(after or {}).get(number, 0) :], found[number])
    return sum(len(records) for records in found.values())


def _assert_equal(where: str, expected: list[Read], found: list[Read]) -> None:
    if expected == found:
        return
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        assert one == other, f"{where}: record {index} of {len(expected)} differs ({_count(expected, found)})"
    raise AssertionError(f"{where}: {_count(expected, found)}")


def _count(expected: list[Read], found: list[Read]) -> str:
    wanted, there = set(expected), set(found)
    doubled = len(found) - len(there)
    return (
        f"source {len(expected)}, target {len(found)}: {len(wanted - there)} lost, {len(there - wanted)} foreign,"
        f" {doubled} more than once"
    )

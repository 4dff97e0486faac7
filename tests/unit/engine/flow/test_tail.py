"""How much of a tail is read."""

from collections.abc import Sequence

from engine.core.position import Position
from engine.core.resume import TailBatch
from engine.flow.tail import tail_headers
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.core.positions import position

COPY = TopicPartition("A.t", 0)
LONG = 1000


class Asked(FakeCluster):
    """A cluster that notes which stretches of its log were read."""

    def __init__(self) -> None:
        super().__init__("B")
        self.log = self.target("A.t")
        self.reads: list[tuple[int, int]] = []

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        self.reads.append((first, end))
        return await super().read_headers(partition, first, end)

    def ours(self, sequence: int, count: int, epoch: int = 3) -> None:
        self.log._store(b"", 41, epoch, sequence, count)

    async def headers(self, at: Position, first: int) -> Sequence[TailBatch]:
        return await tail_headers(self, COPY, at, first, self.log.end)


def begun() -> tuple[Asked, Position]:
    """A log with 50 records, and a position behind them."""
    cluster = Asked()
    cluster.log.foreign(49)
    cluster.log.marker(41, 3)
    return cluster, position()


async def test_of_a_long_tail_the_end_is_read() -> None:
    cluster, at = begun()
    for sequence in range(LONG):
        cluster.ours(sequence, 1)
    cluster.log.marker(41, 4)
    found = await cluster.headers(at, 50)
    assert [(one.base_offset, one.next_offset) for one in found] == [(50, 1049), (1049, 1050), (1050, 1051)]
    assert cluster.reads == [(1049, 1051)]


async def test_markers_at_the_end_are_passed() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    cluster.ours(LONG, 2)
    for epoch in (4, 5, 6):
        cluster.log.marker(41, epoch)
    found = await cluster.headers(at, 50)
    assert [one.base_offset for one in found] == [50, 1050, 1052, 1053, 1054]
    assert cluster.reads == [(1053, 1055), (1052, 1055), (1051, 1055)]


async def test_behind_many_markers_all_is_read() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    for epoch in range(4, 10):
        cluster.log.marker(41, epoch)
    assert list(await cluster.headers(at, 50)) == cluster.log.headers(50)
    assert cluster.reads[-1] == (50, cluster.log.end)


async def test_with_a_marker_between_all_is_read() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    cluster.log.marker(41, 3)
    cluster.ours(LONG, 5)
    cluster.log.marker(41, 4)
    assert list(await cluster.headers(at, 50)) == cluster.log.headers(50)
    assert cluster.reads == [(1055, 1057), (50, 1057)]


async def test_a_short_tail_is_read_at_once() -> None:
    cluster, at = begun()
    cluster.ours(0, 1)
    cluster.log.marker(41, 4)
    assert list(await cluster.headers(at, 50)) == cluster.log.headers(50)
    assert cluster.reads == [(50, 52)]


async def test_the_offset_before_the_position_is_looked_at_too_where_that_is_wanted() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    cluster.ours(LONG, 1)
    found = await cluster.headers(at, 49)
    assert [(one.base_offset, one.is_control) for one in found] == [(49, True), (50, False), (1050, False)]
    assert cluster.reads == [(1049, 1051), (49, 50)]

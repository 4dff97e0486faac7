"""How much of a tail is read."""

from collections.abc import Sequence

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun
from engine.core.position.position import Behind, Position, Seen
from engine.core.position.resume import ResumePoint
from engine.core.position.stored_tail import read_stored_tail
from engine.core.position.target_tail import Tail, TailBatch
from engine.flow.ownership import tail
from engine.flow.ownership.tail import is_kept, tail_headers
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

    async def headers(self, at: Position) -> Sequence[TailBatch]:
        return await tail_headers(self, COPY, at, self.log.start, self.log.end)


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
    found = await cluster.headers(at)
    assert [(one.base_offset, one.next_offset) for one in found] == [(49, 50), (50, 1049), (1049, 1050), (1050, 1051)]
    assert cluster.reads == [(1049, 1051), (49, 50)]


async def test_markers_at_the_end_are_passed() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    cluster.ours(LONG, 2)
    for epoch in (4, 5, 6):
        cluster.log.marker(41, epoch)
    found = await cluster.headers(at)
    assert [one.base_offset for one in found] == [49, 50, 1050, 1052, 1053, 1054]
    assert cluster.reads == [(1053, 1055), (1052, 1055), (1051, 1055), (49, 50)]


async def test_behind_many_markers_all_is_read() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    for epoch in range(4, 10):
        cluster.log.marker(41, epoch)
    assert list(await cluster.headers(at)) == cluster.log.headers(49)
    assert cluster.reads[-1] == (49, cluster.log.end)


async def test_with_a_marker_between_all_is_read() -> None:
    cluster, at = begun()
    cluster.ours(0, LONG)
    cluster.log.marker(41, 3)
    cluster.ours(LONG, 5)
    cluster.log.marker(41, 4)
    assert list(await cluster.headers(at)) == cluster.log.headers(49)
    assert cluster.reads == [(1055, 1057), (49, 1057)]


async def test_a_short_tail_is_read_at_once() -> None:
    cluster, at = begun()
    cluster.ours(0, 1)
    cluster.log.marker(41, 4)
    assert list(await cluster.headers(at)) == cluster.log.headers(49)
    assert cluster.reads == [(49, 52)]


async def test_what_is_not_as_the_owner_left_it_is_read_from_further_back() -> None:
    cluster = Asked()
    cluster.log.foreign(48)
    cluster.ours(0, 2, epoch=2)
    cluster.log.marker(41, 4)
    at = msgspec.structs.replace(position(), map_source=0, map_target=0, map_tail=(MapRun(0, 0, 48),))
    assert list(await cluster.headers(at)) == cluster.log.headers(0)
    assert cluster.reads == [(49, 51), (0, 51)]


def committed(cluster: Asked, count: int, *, kept: bool, batch: int = 10) -> Position:
    """Let a transaction be written, and a position behind it, without its marker; the next one keeps it or not."""
    for sequence in range(0, count, batch):
        cluster.ours(sequence, batch)
    for stored in cluster.log.batches[-(count // batch) :]:
        stored.header = msgspec.structs.replace(stored.header, is_open=True)
    at = msgspec.structs.replace(
        position(),
        source_next=100 + count,
        target_next=50 + count,
        sequence=count,
        map_tail=(MapRun(100, 50, count),),
        atomic=True,
    )
    cluster.log.marker(41, 3 if kept else 4, committing=kept)
    return at


async def test_of_a_committed_transaction_the_last_batch_is_read() -> None:
    cluster, _ = begun()
    found = await cluster.headers(committed(cluster, LONG, kept=True))
    assert [(one.base_offset, one.is_control) for one in found] == [(1040, False), (1050, True)]
    assert cluster.reads == [(1049, 1051)]


async def test_before_an_atomic_position_without_a_map_one_offset_is_read() -> None:
    cluster, at = begun()
    cluster.log.marker(41, 4)
    at = msgspec.structs.replace(at, atomic=True, map_source=100, map_target=50)
    assert list(await cluster.headers(at)) == cluster.log.headers(49)


@pytest.mark.parametrize(("window", "reads"), [(100, [950, 50, 0]), (10_000, [0])])
async def test_of_an_undone_transaction_all_is_read(
    window: int, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_WINDOW", window)
    cluster, _ = begun()
    found = await cluster.headers(committed(cluster, LONG, kept=False))
    assert list(found) == cluster.log.headers(0)
    assert [first for first, _ in cluster.reads] == [1049, *reads]


async def test_what_retention_took_of_an_undone_transaction_is_not_read() -> None:
    cluster, _ = begun()
    at = committed(cluster, LONG, kept=False)
    cluster.log.retain_from(900)
    found = await cluster.headers(at)
    assert (found[0].base_offset, len(cluster.reads)) == (900, 2)


@pytest.mark.parametrize(("kept", "start", "expected"), [(True, 0, True), (False, 0, False), (False, 60, True)])
async def test_whether_a_position_is_kept(kept: bool, start: int, expected: bool) -> None:
    cluster, _ = begun()
    at = committed(cluster, 10, kept=kept)
    assert await is_kept(cluster, COPY, at, start, cluster.log.end) is expected


async def test_what_was_read_is_read_again_if_more_must_be_known() -> None:
    """Another writer's marker is right before the position, and far more than is read back for a loss is behind it."""
    cluster = Asked()
    cluster.log.foreign(49)
    cluster.log.marker(9001, 0)
    cluster.ours(0, 3)
    cluster.log.foreign(100_001)
    cluster.log.marker(41, 4)
    at = msgspec.structs.replace(position(), behind=Seen(Behind.OTHERS))
    batches = await cluster.headers(at)
    assert batches[0].next_offset <= 50
    found = read_stored_tail(at, Tail(log_start=0, end=cluster.log.end, batches=tuple(batches)))
    assert isinstance(found, ResumePoint)
    assert (found.source_next, found.how) == (103, "tail")

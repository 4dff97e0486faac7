"""A corrupt batch that is read to find a lane's place stops that lane, and no other."""

from collections.abc import AsyncIterator

import pytest

from engine.base.errors import BatchTooLarge, MalformedBatch, WireError
from engine.core.events.events import BatchRefused, CorruptSource, LaneRefused
from engine.core.lane.states import State
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.fakes.source_log import SourceLog
from tests.unit.engine.flow.stage import Stage, until


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (MalformedBatch("t", 0, 0, "gzip: broken"), CorruptSource, "source offset 0: gzip: broken"),
        (BatchTooLarge("t", 0, 0, "gzip: too much"), BatchRefused, "gzip: too much"),
        (MalformedBatch("A.t", 0, 2, "gzip: broken"), LaneRefused, "reading A.t-0 at offset 2: gzip: broken"),
    ],
)
async def test_a_corrupt_batch_behind_mm2s_position_fails_one_lane_only(
    monkeypatch: pytest.MonkeyPatch, error: WireError, kind: type[CorruptSource | BatchRefused | LaneRefused], text: str
) -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(5)
    donor = SourceLog()  # somebody wrote to the copy of partition 0, and was killed before its first position
    donor.data(3)
    stage.targets[0].append(donor.fetch(0, 1)[0])
    read_log = stage.a.read_log

    async def corrupt(
        partition: TopicPartition, first: int, end: int, *, committed: bool
    ) -> AsyncIterator[list[Record]]:
        if partition == TopicPartition("t", 0):
            raise error
        async for records in read_log(partition, first, end, committed=committed):
            yield records

    monkeypatch.setattr(stage.a, "read_log", corrupt)
    async with stage.running():
        stage.assign()
        await until(lambda: stage.whole(1) and stage.state(0) is State.FAILED)
        (event,) = stage.told(kind)
    assert text in event.text()


async def test_a_corrupt_batch_among_positions_does_not_stop_the_copier(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(1)
    stage.sources[0].data(5)
    read_records, failures = stage.b.read_records, [MalformedBatch("positions", 0, 7, "gzip: broken")]

    async def corrupt(*args: object) -> list[tuple[bytes | None, bytes | None]]:
        if failures:
            raise failures.pop()
        return await read_records(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.b, "read_records", corrupt)
    async with stage.running():
        stage.assign()
        await until(stage.whole)
    assert not failures

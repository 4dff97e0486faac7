"""A copier that merges small batches: a record that the target refuses is singled out, the others are copied."""

import msgspec
import pytest

from engine.core.events.events import LaneReleased, RecordRefused
from engine.core.lane.pending_batch import Limits
from engine.core.lane.rebatching import rebatch_rules
from engine.flow.ports.options import FlowOptions
from engine.flow.replication.copier import FlowCopier
from tests.unit.engine.flow.stage import TERMS, Stage, until

COUNT = 40


class Merging(Stage):
    def new_copier(self, options: FlowOptions = TERMS) -> FlowCopier:
        return super().new_copier(msgspec.structs.replace(options, limits=Limits(rebatch=rebatch_rules())))


@pytest.mark.parametrize("bad", [0, 13, COUNT - 1])
async def test_a_refused_record_is_named_and_what_is_before_it_is_copied(bad: int) -> None:
    stage = Merging()
    stage.assign()
    for _ in range(COUNT):
        stage.sources[0].data(1)
    stage.a.grow()
    stage.targets[0].refuses = lambda key: key == b"%d" % bad
    async with stage.running():
        await until(lambda: stage.told(RecordRefused))
        (event,) = stage.told(RecordRefused)
        assert isinstance(event, RecordRefused)
        assert (event.source_offset, event.error_code) == (bad, 87)
        assert stage.driver().lane.source_next == bad
        stage.targets[0].refuses = lambda _key: False
        await until(lambda: stage.told(LaneReleased))
        await until(stage.whole)
    assert [record.key for record in stage.targets[0].records()] == [b"%d" % number for number in range(COUNT)]


async def test_merged_batches_are_counted() -> None:
    stage = Merging()
    stage.assign()
    for _ in range(COUNT):
        stage.sources[0].data(1)
    stage.a.grow()
    async with stage.running():
        await until(stage.whole)
        progress = stage.copier.progress()
    batches = [one for one in stage.targets[0].batches if one.payload]
    assert 0 < len(batches) < COUNT // 2
    assert progress.merged_batches == sum(one.header.record_span > 1 for one in batches)
    assert progress.merged_from == sum(one.header.record_span for one in batches if one.header.record_span > 1)
    assert stage.copier.router.pool.stuck_bytes == 0

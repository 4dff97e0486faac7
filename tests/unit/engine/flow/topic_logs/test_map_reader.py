"""Maps read back from the topics that a copier wrote, compared with both logs."""

from collections.abc import Sequence

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.mm2.mm2_records import OffsetSync, encode_offset_sync
from engine.core.offset_map import map_runs
from engine.core.offset_map.map_blocks import block_key, encode_block, encode_tail, map_topic
from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun
from engine.core.offset_map.offset_map import How
from engine.core.position.position import Position, altered_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.ports.ports import Leader
from engine.flow.topic_logs import map_reader
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.fakes.source_log import COMMIT
from tests.fakes.target_log import TargetLog
from tests.unit.engine.flow.stage import FLOW, POSITIONS, Stage, until

LANE = TopicPartition("t", 0)
SYNCS = "mm2-offset-syncs.A.internal"
NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 3)
    monkeypatch.setattr(map_reader, "_LEAST_RUNS", 3)


class Holes(Stage):
    """A source of transactions and of what compaction left."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.syncs = self.b.target(SYNCS)

    def more(self, runs: int) -> None:
        for log in self.sources:
            for _ in range(runs):
                log.data(3, holes=frozenset({1}))
                log.data(2, producer_id=7)
                log.marker(7, COMMIT)
        self.a.grow()

    async def copied_all(self) -> None:
        drivers = self.copier.drivers.values()
        ends = {TopicPartition("t", at): log.end for at, log in enumerate(self.sources)}
        await until(lambda: all(driver.lane.source_next == ends[driver.name.source] for driver in drivers))

    def reader(self, keep_runs: int = 1000, syncs_within_s: float | None = None) -> MapReader:
        options = MapOptions(
            positions_topic=POSITIONS,
            positions_partitions=1,
            position_keys=PositionKeys(FLOW.source),
            syncs_topic=SYNCS,
            keep_runs=keep_runs,
            syncs_within_s=syncs_within_s,
        )
        return MapReader(options, self.b)

    async def judge(self, reader: MapReader, partition: int = 0) -> None:
        """Hold every answer against the logs; what is not in memory is read back."""
        lane, places = TopicPartition("t", partition), self.targets[partition].places()
        head = reader.head(lane)
        assert head is not None
        for offset in range(head.source_next + 1):
            answer = reader.translate(lane, offset)
            if answer.how is How.UNREAD:
                await reader.recall(lane, [answer.block])
                answer = reader.translate(lane, offset)
            behind = [target for source, target in places.items() if offset <= source < head.source_next]
            assert answer.offset == min(behind, default=head.target_next), (offset, answer)
            if answer.how is How.RUN:
                back = reader.source_of(lane, answer.offset)
                if back.how is How.UNREAD:
                    await reader.recall(lane, [back.block])
                    back = reader.source_of(lane, answer.offset)
                assert back.offset == offset

    def sync(self, tail: bytes, log: TargetLog | None = None) -> None:
        """Write an offset sync as our own writer does."""
        key, value = encode_offset_sync(OffsetSync("t", 0, 1, 1, tail))
        (log or self.syncs).append(bytes(encode_batch([Record(0, NOW_MS, key, value)], 0)))


async def played(runs: int = 5, partitions: int = 1) -> Holes:
    stage = Holes(partitions)
    stage.more(runs)
    stage.assign()
    async with stage.running():
        await stage.copied_all()
        drivers = stage.copier.drivers.values()
        await until(lambda: not any(driver.blocks.due or driver.blocks.writing for driver in drivers))
    return stage


async def test_one_pass_knows_the_whole_map() -> None:
    stage = await played()
    reader = stage.reader()
    await reader.follow()
    stored = stage.stored()
    assert stored.map_blocks > 2
    assert reader.head(LANE) == stored.map_head
    assert reader.translate(LANE, stored.source_next).how is How.END
    assert reader.translate(LANE, stored.source_next + 1).how is How.BEYOND
    await stage.judge(reader)


async def test_a_reader_follows_and_a_new_owner_goes_on_with_the_map() -> None:
    stage = await played(3)
    reader = stage.reader()
    await reader.follow([LANE])
    await stage.judge(reader)
    for epoch in (2, 3):
        stage.copier = stage.new_copier()
        stage.more(4)
        stage.assign(epoch=epoch)
        async with stage.running():
            await stage.copied_all()
        await reader.follow([LANE])
        known = reader.map_of(LANE)
        assert known is not None
        assert known.begins == stage.stored().map_start
        assert known.begins.first
        assert reader.begins(LANE) == known.begins.source
        await stage.judge(reader)
    fresh = stage.reader()
    await fresh.follow()
    await stage.judge(fresh)


async def test_the_end_of_a_closed_map_is_adopted_when_no_position_has_it_any_more() -> None:
    stage = Holes()
    stage.more(8)
    stage.assign()
    async with stage.running():
        await stage.copied_all()
    closed = stage.stored()
    assert closed.map_blocks > 1
    altered = Record(0, NOW_MS, PositionKeys(FLOW.source).encode(LANE), altered_value(closed.source_next - 1))
    stage.positions.append(bytes(encode_batch([altered], 0)))
    reader = stage.reader()
    await reader.follow()
    assert reader.head(LANE) is None
    reader.adopt(LANE, closed.map_head, closed.map_start)
    await stage.judge(reader)


async def test_what_is_thinned_is_read_back() -> None:
    stage = await played(8, partitions=3)
    reader = stage.reader(keep_runs=20)
    await reader.follow()
    assert sum(known.loaded_runs for known in reader._maps.values()) <= 20
    for partition in range(3):
        await stage.judge(reader, partition)
    assert sum(known.loaded_runs for known in reader._maps.values()) == reader._loaded <= 20


async def test_a_sync_tells_what_no_position_does_yet() -> None:
    stage = Holes()
    stage.more(3)
    stage.assign()
    reader = stage.reader()
    async with stage.running():
        await stage.copied_all()
        await until(stage.written_down)
        await reader.follow()
        stage.more(2)
        await stage.copied_all()
        lane = stage.driver().lane
        assert lane.map is not None
        head = lane.map.head(lane.source_next, lane.target_next)
        before = reader.head(LANE)
        stage.sync(encode_tail(head))
        stage.sync(b"")  # MM2's own
        stage.sync(b"\x09\x01")
        stage.syncs.append(bytes(encode_batch([Record(0, NOW_MS, b"?", b"?")], 0)))
    await reader.follow()
    assert reader.head(LANE) not in (None, before)
    await stage.judge(reader)


async def test_a_head_is_of_the_time_of_what_told_it() -> None:
    stage = await played(3)
    known = stage.stored().map_head
    reader = stage.reader()
    assert reader.head_ms(LANE) == -1
    await reader.follow()
    assert reader.head_ms(LANE) in {record.timestamp for record in stage.positions.records()}
    stage.sync(encode_tail(msgspec.structs.replace(known, source_next=known.source_next + 1)))
    await reader.follow()
    assert reader.head_ms(LANE) == NOW_MS


async def test_a_lane_has_begun_when_a_sync_says_so_before_its_position_can_be_read() -> None:
    stage = Holes()
    reader = stage.reader()
    await reader.follow()
    assert not reader.begun(LANE)
    stage.sync(b"")  # MM2's own
    await reader.follow()
    assert not reader.begun(LANE)
    stage.sync(encode_tail(MapHead(1, 0, 2, 2, ())))
    await reader.follow()
    assert reader.begun(LANE)
    assert reader.head(LANE) is None


async def test_a_sync_of_another_owner_waits_for_its_position() -> None:
    stage = await played(3)
    known = stage.stored().map_head
    reader = stage.reader()
    await reader.follow()
    stage.sync(encode_tail(msgspec.structs.replace(known, generation=known.generation - 1, source_next=10_000)))
    await reader.follow()
    assert reader.head(LANE) == known
    newer = msgspec.structs.replace(known, generation=known.generation + 1, source_next=known.source_next + 1)
    stage.sync(encode_tail(newer))
    await reader.follow()
    assert reader.head(LANE) == known
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.driver().positions.settled)
    await reader.follow()
    assert reader.head(LANE) == newer


async def test_syncs_in_a_topic_that_was_made_anew_are_read() -> None:
    stage = await played(3)
    known = stage.stored().map_head
    reader = stage.reader()
    for _ in range(3):
        stage.sync(b"")
    await reader.follow()
    stage.b.targets[TopicPartition(SYNCS, 0)] = another = TargetLog()
    stage.sync(encode_tail(msgspec.structs.replace(known, source_next=known.source_next + 1)), another)
    await reader.follow()
    head = reader.head(LANE)
    assert head is not None
    assert head.source_next == known.source_next + 1


async def test_old_syncs_are_left_alone() -> None:
    stage = await played(3)
    head = msgspec.structs.replace(stage.stored().map_head, source_next=10_000)
    key, value = encode_offset_sync(OffsetSync("t", 0, 1, 1, encode_tail(head)))
    stage.syncs.append(bytes(encode_batch([Record(0, 1_000, key, value)], 0)))
    key, value = encode_offset_sync(OffsetSync("another", 0, 1, 1))
    stage.syncs.append(bytes(encode_batch([Record(0, NOW_MS, key, value)], 0)))
    reader = stage.reader()
    await reader.follow()
    assert reader.head(LANE) == stage.stored().map_head


async def test_nothing_is_known_of_what_nobody_wrote() -> None:
    stage = Holes()
    del stage.b.leader[TopicPartition(map_topic("A"), 0)]
    reader = stage.reader()
    await reader.follow()
    assert reader.map_of(LANE) is None
    assert reader.begins(LANE) == -1
    assert reader.head(LANE) is None
    assert reader.translate(LANE, 0).how is How.STALE
    assert reader.source_of(LANE, 0).how is How.STALE


async def test_a_position_that_cannot_be_read_hides_its_lane() -> None:
    stage = await played(3, partitions=2)
    newest = next(one for one in reversed(stage.positions.records()) if b'"partition":0' in (one.key or b""))
    newer = msgspec.structs.replace(newest, value=(newest.value or b"").replace(b'"raymirror":2', b'"raymirror":9'))
    stage.positions.append(bytes(encode_batch([newer], 0)))
    reader = stage.reader()
    await reader.follow()
    assert "newer raymirror" in reader.unreadable[LANE]
    assert reader.translate(LANE, 0).how is How.STALE
    await stage.judge(reader, 1)


async def test_records_of_others_are_left_alone() -> None:
    stage = await played(3)
    for log, key in ((stage.positions, b"?"), (stage.blocks, b"?")):
        log.append(bytes(encode_batch([Record(0, NOW_MS, key, b"?"), Record(0, NOW_MS, None, None)], 0)))
    other = stage.blocks.records()[0].key or b""
    blocks = [
        Record(0, NOW_MS, other.replace(b'"A"', b'"X"'), encode_block(MapBlock(0, 1, ()))),
        Record(0, NOW_MS, other.replace(b'"block":0', b'"block":90'), b"\x01"),
    ]
    stage.blocks.append(bytes(encode_batch(blocks, 0)))
    reader = stage.reader()
    await reader.follow()
    await stage.judge(reader)


async def test_a_pass_that_fails_goes_on_with_the_next() -> None:
    stage = await played(5)
    reader = stage.reader()
    asked: list[str] = []

    def fail(what: str, partitions: object) -> None:
        asked.append(what)
        if what == "read log" and asked.count(what) == 2:
            raise ConnectionLost("gone")

    stage.b.fail = fail
    with pytest.raises(ConnectionLost):
        await reader.follow()
    assert reader.head(LANE) is None
    await reader.follow()
    await stage.judge(reader)
    asked.clear()
    await reader.follow()
    assert "read log" not in asked


async def test_the_map_survives_a_target_that_lost_blocks_of_it() -> None:
    """A loss that reaches into the blocks: they are read back, cut, and written anew under the same numbers."""
    stage = await played(6)
    reader = stage.reader()
    await reader.follow()
    before = stage.stored()
    assert isinstance(before, Position)
    keep = sorted(stage.targets[0].places().values())[5] + 1
    log = stage.targets[0]
    keep = max(b.header.next_offset for b in log.batches if b.header.next_offset <= keep)
    log.truncate(keep)
    log.producers.clear()
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    stage.more(2)
    async with stage.running():
        await stage.copied_all()
    assert stage.whole()
    assert stage.stored().map_generation == before.map_generation + 1
    for one in (reader, stage.reader()):
        await one.follow()
        await stage.judge(one)


async def test_the_last_syncs_of_one_who_is_long_gone_are_read() -> None:
    """Nobody has written for longer than syncs matter: the newest still tell more than the last position."""
    stage = await played(2)
    stage.sources[0].data(4)
    stage.a.grow()
    stored = stage.stored()
    ahead = msgspec.structs.replace(
        stored.map_head, source_next=stored.source_next + 4, target_next=stored.target_next + 4
    )
    key, value = encode_offset_sync(OffsetSync("t", 0, 1, 1, encode_tail(ahead)))
    stage.syncs.append(bytes(encode_batch([Record(0, 1_000, key, value)], 0)))
    reader = stage.reader()
    await reader.follow()
    assert reader.head(LANE) == ahead


async def test_all_runs_of_a_stretch_are_read_block_after_block() -> None:
    stage = await played(8, partitions=3)
    reader = stage.reader(keep_runs=20)
    await reader.follow()
    for partition in range(3):
        lane, places = TopicPartition("t", partition), stage.targets[partition].places()
        columns = await reader.runs(lane, 0, 10_000)
        found = {source + n: at + n for source, at, count in zip(*columns, strict=True) for n in range(count)}
        assert found == places
        some = await reader.runs(lane, 12, 20)
        assert 0 < len(some[0]) < len(columns[0])
        part = {source + n for source, _, count in zip(*some, strict=True) for n in range(count)}
        assert {source for source in places if 12 <= source < 20} <= part
    assert reader._loaded <= 20


async def test_a_block_that_is_gone_is_no_part_of_the_runs() -> None:
    stage = await played(8)
    reader = stage.reader(keep_runs=3)
    await reader.follow()
    stage.b.target(map_topic(FLOW.source)).truncate(0)
    with pytest.raises(LookupError, match="block 0 of the map of t-0"):
        await reader.runs(LANE, 0, 10_000)


def made_again(stage: Holes, blocks: int, *, known_by_id: bool = True) -> None:
    """Delete the map topic and make it again; it grows beyond its former end with the blocks of another lane."""
    where = TopicPartition(map_topic("A"), 0)
    before, leader = stage.blocks.end, stage.b.leader[where]
    stage.blocks = stage.b.target(where.topic)
    stage.b.leader[where] = msgspec.structs.replace(leader, topic_id="another id" if known_by_id else leader.topic_id)
    for number in range(max(blocks, before + 1)):
        runs = tuple(MapRun(1000 * number + 10 * at, 1_000_000 + 1000 * number + 10 * at, 5) for at in range(3))
        key = block_key("A", TopicPartition("other", 3), number)
        stage.blocks.append(bytes(encode_batch([Record(0, NOW_MS, key, encode_block(MapBlock(number, 1, runs)))], 0)))
    assert stage.blocks.end > before


async def test_a_map_topic_that_was_made_again_is_told_by_its_id() -> None:
    stage = await played(8)
    reader = stage.reader(keep_runs=1)
    await reader.follow()
    await stage.judge(reader)
    stored = stage.stored()
    made_again(stage, 50)
    await reader.follow()
    head = reader.head(LANE)
    assert head is not None
    assert head.blocks == stored.map_blocks
    begins = stored.map_tail[0].source
    for offset in range(head.source_next + 1):
        answer = reader.translate(LANE, offset)
        assert (answer.how is How.BEFORE) is (offset < begins), (offset, answer)
    other = reader.map_of(TopicPartition("other", 3))
    assert other is not None
    assert other.blocks == 50, "what lies below the former end is read too"


async def test_a_block_of_another_lane_is_not_loaded_where_ours_was() -> None:
    """As it is between a look at the topic and the block's being read back."""
    stage = await played(8)
    reader = stage.reader(keep_runs=1)
    await reader.follow()
    unread = next(at for at in range(1000) if reader.translate(LANE, at).how is How.UNREAD)
    block = reader.translate(LANE, unread).block
    made_again(stage, 50, known_by_id=False)
    await reader.recall(LANE, [block])
    assert reader.translate(LANE, unread).how is How.UNREAD


async def test_lanes_whose_map_cannot_be_read_have_no_answers_where_that_is_borne() -> None:
    """What is known of them may be of a former owner; the others are answered, and they too once the broker is back."""
    stage = Holes()
    stage.more(2)
    stage.assign()
    options = MapOptions(
        positions_topic=POSITIONS, positions_partitions=1, position_keys=PositionKeys(FLOW.source), bears_away=True
    )
    reader = MapReader(options, stage.b)
    async with stage.running():
        await stage.copied_all()
        await until(stage.written_down)
        await reader.follow()
        assert reader.translate(LANE, 0).how is How.RUN
        topic = map_topic("A")
        stage.b.leader[TopicPartition(topic, 0)] = Leader(7, 1, f"id-{topic}")
        stage.b.down.add(7)
        await reader.follow()
        assert reader.away == {7: "B:7: cannot connect: down"}
        assert (reader.translate(LANE, 0).how, reader.head(LANE)) == (How.STALE, None)
        assert reader.begun(LANE), "offset syncs are near: no answer for a lane that has an exact one"
        stage.b.down.clear()
        await reader.follow()
        assert (reader.away, reader.translate(LANE, 0).how) == ({}, How.RUN)


async def test_whoever_reads_for_one_answer_may_do_without_the_syncs() -> None:
    stage = Holes()
    stage.assign()
    async with stage.running():
        stage.more(2)
        await stage.copied_all()

    def fail(_what: str, partitions: Sequence[TopicPartition]) -> None:
        if any(one.topic == SYNCS for one in partitions):
            raise ConnectionLost(SYNCS)

    stage.b.fail = fail
    with pytest.raises(ConnectionLost):
        await stage.reader().follow()
    reader = stage.reader(syncs_within_s=60.0)
    await reader.follow()
    assert SYNCS in reader.without_syncs
    stage.b.fail = lambda _what, _partitions: None
    await reader.follow()
    assert reader.head(LANE) is not None
    assert SYNCS in reader.without_syncs, "it is not asked for again"

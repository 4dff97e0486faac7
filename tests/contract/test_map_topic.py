"""The topic of the offset map: fenced like the data, read back block by block, on the fake and on a real broker."""

import msgspec
import pytest

from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.offset_map.map_blocks import block_key, encode_block, map_topic
from engine.core.offset_map.map_runs import MapBlock, MapRun, MapStart
from engine.core.offset_map.offset_map import How, Translation
from engine.core.position.position import Position, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.ports.ports import Producer
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.wire.codecs import ZSTD
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.contract.stage import BORN_MS, Stage, send

pytestmark = pytest.mark.contract

LANE = TopicPartition("t", 0)
FIRST = (MapRun(0, 10, 5), MapRun(6, 15, 5))
SECOND = (MapRun(12, 21, 5), MapRun(20, 30, 9))


class Owner:
    """A lane's owner that writes blocks and positions."""

    def __init__(self, stage: Stage, alias: str, blocks: TopicPartition, positions: TopicPartition) -> None:
        self.stage, self.alias, self.blocks, self.positions = stage, alias, blocks, positions
        self.sequences = {blocks: 0, positions: 0}

    async def acquire(self) -> "Owner":
        self.producer: Producer = await self.stage.port.acquire(f"{self.alias}-lane", [self.blocks, self.positions])
        leader = (await self.stage.port.leaders([self.blocks, self.positions]))[self.blocks]
        self.broker = await self.stage.port.target_broker(leader.node)
        return self

    async def write(self, where: TopicPartition, *pairs: tuple[bytes, bytes]) -> Outcome:
        records = [Record(0, BORN_MS, key, value) for key, value in pairs]
        identity = {"producer_id": self.producer.producer_id, "producer_epoch": self.producer.epoch}
        payload = encode_batch(records, ZSTD, base_sequence=self.sequences[where], **identity)
        (outcome,) = await send(self.broker, (where, payload))
        self.sequences[where] += len(records)
        return outcome

    def block(self, number: int, generation: int, runs: tuple[MapRun, ...]) -> tuple[bytes, bytes]:
        return block_key(self.alias, LANE, number), encode_block(MapBlock(number, generation, runs))

    def position(self, generation: int, blocks: int, runs: tuple[MapRun, ...]) -> tuple[bytes, bytes]:
        made = Position(
            source_next=sum(runs[-1][::2]),
            target_next=sum(runs[-1][1:]),
            sequence=0,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            runs=(),
            assignment_epoch=1,
            deployment_id="d",
            map_generation=generation,
            map_blocks=blocks,
            map_source=0,
            map_target=10,
            map_first=True,
            map_tail=runs,
        )
        return PositionKeys(self.alias).encode(LANE), encode_value(made)


async def test_blocks_are_fenced_and_read_back(stage: Stage) -> None:
    alias = stage.name
    positions = await stage.target({"cleanup.policy": "compact"})
    stage.name = map_topic(alias)
    blocks = await stage.target({"cleanup.policy": "compact"})
    options = MapOptions(position_keys=PositionKeys(alias), positions_topic=alias, positions_partitions=2)
    reader = MapReader(options, stage.port)
    former = await Owner(stage, alias, blocks, positions).acquire()
    for where, pair in ((blocks, former.block(0, 1, FIRST)), (positions, former.position(1, 0, FIRST))):
        assert (await former.write(where, pair)).kind is OutcomeKind.APPENDED
    await reader.follow()
    assert reader.translate(LANE, 7) == Translation(How.RUN, 16)

    owner = await Owner(stage, alias, blocks, positions).acquire()
    late = await former.write(blocks, former.block(1, 1, (MapRun(12, 99, 5),)))
    assert (late.kind, late.error_code) == (OutcomeKind.FENCED, 47)
    made = [owner.block(0, 2, FIRST), owner.block(1, 2, SECOND)]
    assert (await owner.write(blocks, *made)).kind is OutcomeKind.APPENDED
    await reader.follow()
    assert reader.translate(LANE, 7).how is How.STALE  # the new owner's head is on its way
    tail = (MapRun(30, 40, 2),)
    assert (await owner.write(positions, owner.position(2, 2, tail))).kind is OutcomeKind.APPENDED

    for one in (reader, MapReader(msgspec.structs.replace(options, keep_runs=0), stage.port)):
        await one.follow()
        known = one.map_of(LANE)
        assert known is not None
        assert known.begins == MapStart(0, 10, first=True)
        known.thin(0)
        assert one.translate(LANE, 31) == Translation(How.RUN, 41)
        assert one.translate(LANE, 14) == Translation(How.UNREAD, block=1)
        await one.recall(LANE, [1])
        assert one.translate(LANE, 14) == Translation(How.RUN, 23)
        assert one.translate(LANE, 17) == Translation(How.REFINED, 30)
    await former.broker.close()
    await owner.broker.close()

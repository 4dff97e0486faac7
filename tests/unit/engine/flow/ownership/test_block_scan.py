"""A lane's blocks found among those of other lanes: by key, the last one wins, and no other block is decoded."""

import msgspec
import pytest

from engine.core.offset_map import map_blocks
from engine.core.offset_map.map_blocks import BlockPlace, block_key, encode_block
from engine.core.offset_map.map_runs import MapBlock, MapRun
from engine.flow.ownership import block_scan
from engine.flow.ownership.block_scan import find_blocks, read_blocks
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.flow.replication.test_map_retention import QUICK, eat, gone
from tests.unit.engine.flow.stage import until
from tests.unit.engine.flow.topic_logs.test_map_reader import Holes, played

MAP = TopicPartition("raymirror-map.A.internal", 0)
MINE, OTHER = TopicPartition("t", 0), TopicPartition("t", 10)


def block(number: int, begin: int) -> MapBlock:
    return MapBlock(number, 1, (MapRun(begin, begin + 1000, 2), MapRun(begin + 5, begin + 1005, 2)))


class Map(FakeCluster):
    """A cluster with a map topic that a test writes to."""

    def __init__(self) -> None:
        super().__init__("B")
        self.log = self.target(MAP.topic)

    def write(self, *records: tuple[bytes | None, bytes | None]) -> None:
        self.log.append(bytes(encode_batch([Record(0, 0, key, value) for key, value in records], 0)))

    def put(self, lane: TopicPartition, *blocks: MapBlock, source: str = "A") -> None:
        self.write(*((block_key(source, lane, one.number), encode_block(one)) for one in blocks))


async def test_the_last_of_each_number_counts_and_others_do_not() -> None:
    cluster = Map()
    cluster.put(MINE, block(0, 10), block(1, 20), block(2, 30))
    cluster.put(OTHER, block(0, 11), block(1, 21))
    cluster.put(MINE, block(0, 12), source="C")
    cluster.put(MINE, block(1, 25))
    cluster.write((block_key("A", MINE, 0), None), (None, b"x"), (b"strange", b"y"))
    cluster.write((block_key("A", MINE, 2), b"\x09"), (block_key("A", MINE, 3), encode_block(block(3, 40))))
    found = await find_blocks(cluster, MAP, "A", [MINE])
    assert found == {MINE: {1: BlockPlace(25, 1025, 6), 3: BlockPlace(40, 1040, 11)}}
    both = await find_blocks(cluster, MAP, "A", [MINE, OTHER], rest_s=0.001)
    assert both[MINE] == found[MINE]
    assert both[OTHER] == {0: BlockPlace(11, 1011, 3), 1: BlockPlace(21, 1021, 4)}
    assert await read_blocks(cluster, MAP, found[MINE]) == {1: block(1, 25), 3: block(3, 40)}
    assert await read_blocks(cluster, MAP, {}) == {}


async def test_a_block_that_is_broken_or_gone_by_now_is_left_out() -> None:
    cluster = Map()
    cluster.put(MINE, block(0, 10))
    cut = encode_block(block(1, 20))[:-2]
    cluster.write((block_key("A", MINE, 1), cut), (block_key("A", MINE, 2), None))
    found = await find_blocks(cluster, MAP, "A", [MINE])
    places = {**found[MINE], 2: BlockPlace(1, 1, 2), 5: BlockPlace(1, 1, 50)}
    assert await read_blocks(cluster, MAP, places) == {0: block(0, 10)}


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.core.offset_map.map_runs.RUNS_PER_BLOCK", 3)


@pytest.mark.usefixtures("_small_blocks")
async def test_a_look_at_what_is_eaten_decodes_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[object] = []

    def count(*asked: object) -> None:
        decoded.append(asked)

    stage: Holes = await played(6)
    eat(stage, stage.stored().map_blocks)
    monkeypatch.setattr(map_blocks, "decode_block", count)
    monkeypatch.setattr(block_scan, "decode_block", count)
    monkeypatch.setattr(map_blocks, "read_block_key", count)
    stage.copier = stage.new_copier(QUICK)
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: gone(stage))
    assert decoded == []


@pytest.mark.usefixtures("_small_blocks")
async def test_a_lane_that_was_lost_during_the_look_is_left_to_its_next_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await played(6)
    eat(stage, stage.stored().map_blocks)
    stage.copier = stage.new_copier(msgspec.structs.replace(QUICK, map_retention_s=3600.0))
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.driver().lane.announced)
        before = stage.driver().lane.map
        taken: list[str] = []

        def lose(what: str, _partitions: object) -> None:
            if what == "read log" and not taken:
                taken.append(what)
                stage.copier._failures.rejoin(stage.driver())

        stage.b.fail = lose
        await stage.copier._map_retention.clean()
        assert taken
        await until(lambda: stage.driver().lane.announced and stage.driver().lane.map is not before)
        assert not gone(stage)
        await stage.copier._map_retention.clean()
        await until(lambda: gone(stage))

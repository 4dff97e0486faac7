"""Receive buffers for one fetch: lanes that cannot send return their memory to lanes that can."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from engine.base.errors import BatchTooLarge, ConnectionLost
from engine.core.events.events import BatchRefused
from engine.core.lane.states import State
from engine.core.offset_map.map_blocks import map_topic
from engine.core.streams.transaction import TransactionStage as TransactionStage
from engine.flow.io import giving_back
from engine.flow.io.buffers import BUFFER_BYTES
from engine.flow.ownership import failure_handler as failure_handler
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Leader
from engine.flow.replication.copier import FlowCopier
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.unit.engine.flow.stage import POSITIONS, TERMS, until
from tests.unit.engine.flow.stage import Stage as _Stage

WELL, STUCK = 0, 4
"""Lanes whose positions are in different partitions: 0 and 1."""
SHORT = msgspec.structs.replace(TERMS, positions_partitions=2, buffer_budget_bytes=BUFFER_BYTES, flush_s=1000.0)
PLACES = TopicPartition(POSITIONS, 1)
COPY = TopicPartition("A.t", STUCK)


class Stage(_Stage):
    """Five lanes that share memory for one fetch."""

    def __init__(self, options: FlowOptions = SHORT) -> None:
        self._own_options = options
        super().__init__(5)
        self.b.target(POSITIONS, 1)
        self.b.target(map_topic("A"), 1)

    def new_copier(self, options: FlowOptions | None = None) -> FlowCopier:
        return super().new_copier(options or self._own_options)

    async def start(self) -> None:
        """Have every lane own its place."""
        self.assign()
        await until(lambda: all(driver.lane.announced for driver in self.copier.drivers.values()))

    def fill(self, partition: int) -> None:
        """Give the source batches with holes between them: a position goes before each."""
        for _ in range(3):
            self.sources[partition].data(200)
            self.sources[partition].vanish(1)
        self.a.grow()

    def look_up(self) -> None:
        self.copier.router.leaders.look_up(self.copier.drivers.values())

    def fetches_of(self, partition: int) -> int:
        return sum(want.partition.partition == partition for _, wanted in self.a.fetches for want in wanted)

    async def others_copy(self) -> None:
        """Records of the other lane come through, again and again, and the stuck lane is not fetched for nothing."""
        self.fill(WELL)
        await until(lambda: self.whole(WELL))
        self.a.fetches.clear()
        for _ in range(5):
            self.fill(WELL)
            await until(lambda: self.whole(WELL))
        assert self.fetches_of(STUCK) <= 2, "it cannot send what it fetches"
        assert not self.whole(STUCK)

    async def all_is_well(self) -> None:
        await until(lambda: self.whole(STUCK) and self.whole(WELL))


def holds(stage: Stage, partition: int = STUCK) -> Callable[[], bool]:
    return lambda: stage.driver(partition).lane.queued_bytes > 0


async def test_a_lane_whose_positions_have_no_leader_gives_its_memory_back() -> None:
    stage = Stage()
    async with stage.running():
        await stage.start()
        leader = stage.b.leader.pop(PLACES)
        stage.look_up()
        stage.fill(STUCK)
        await until(holds(stage))
        await stage.others_copy()
        stage.b.leader[PLACES] = leader
        await stage.all_is_well()


async def test_a_lane_whose_positions_are_not_answered_gives_its_memory_back() -> None:
    """A broker that is frozen, with only the positions."""
    stage = Stage()
    stage.b.leader[PLACES] = Leader(7, 0, f"id-{POSITIONS}")
    async with stage.running():
        await stage.start()
        stage.b.frozen.add(7)
        stage.fill(STUCK)
        await until(holds(stage))
        await stage.others_copy()
        stage.b.thaw(7)
        await stage.all_is_well()


async def test_a_lane_whose_new_leader_does_not_say_where_it_ends_gives_its_memory_back() -> None:
    stage, speak = Stage(), asyncio.Event()

    def fail(what: str, partitions: object) -> None:
        if what == "offsets" and partitions == [COPY] and not speak.is_set():
            raise ConnectionLost("silent")

    async with stage.running():
        await stage.start()
        stage.b.fail = fail
        stage.b.leader[COPY] = Leader(8, 1, "id-A.t")
        stage.look_up()
        await until(lambda: stage.driver(STUCK).leaders.doubted and stage.driver(STUCK).leaders.target.node == 8)
        stage.fill(STUCK)
        await until(holds(stage))
        await stage.others_copy()
        speak.set()
        await stage.all_is_well()


async def test_a_lane_whose_coordinator_is_away_gives_its_memory_back() -> None:
    stage, answer = Stage(msgspec.structs.replace(SHORT, commit_s=0.05)), asyncio.Event()

    def fail(what: str, partitions: object) -> None:
        if what == "add to transaction" and isinstance(partitions, list) and COPY in partitions and not answer.is_set():
            raise ConnectionLost("the coordinator is away")

    async with stage.running():
        await stage.start()
        stage.b.fail = fail
        stage.fill(STUCK)
        await until(holds(stage))
        await stage.others_copy()
        transaction = stage.driver(STUCK).transaction
        assert transaction is not None
        assert transaction.stage is TransactionStage.BEGINNING
        answer.set()
        await stage.all_is_well()


@pytest.mark.parametrize("how", ["frozen", "mute"])
async def test_a_target_broker_that_answers_nothing_holds_no_memory(how: str) -> None:
    stage = Stage()
    stage.b.leader[COPY] = Leader(8, 0, "id-A.t")
    async with stage.running():
        await stage.start()
        getattr(stage.b, how).add(8)
        stage.fill(STUCK)
        stage.driver(STUCK).positions.flush_asked = True
        await until(lambda: stage.driver(STUCK).lane.in_flight)
        stage.fill(WELL)
        await until(lambda: stage.whole(WELL))
        stage.b.thaw(8)
        await stage.all_is_well()


async def test_where_there_is_memory_enough_nothing_is_given_back() -> None:
    stage = Stage(msgspec.structs.replace(SHORT, buffer_budget_bytes=16 * BUFFER_BYTES))
    async with stage.running():
        await stage.start()
        leader = stage.b.leader.pop(PLACES)
        stage.look_up()
        stage.fill(STUCK)
        await until(holds(stage))
        for _ in range(5):
            stage.fill(WELL)
            await until(lambda: stage.whole(WELL))
        assert stage.driver(STUCK).lane.queued_bytes > 0, "it is sent at once when the leader is there"
        stage.b.leader[PLACES] = leader
        await stage.all_is_well()


async def test_a_lane_with_a_backlog_has_no_more_than_its_share_unsent() -> None:
    """Lanes with long backlogs of small batches would hold all of a small memory until they are sent."""
    stage = Stage(msgspec.structs.replace(SHORT, buffer_budget_bytes=4 * BUFFER_BYTES))
    share = 4 * BUFFER_BYTES // 64
    async with stage.running():
        await stage.start()
        lane = stage.driver(WELL).lane
        stage.b.frozen.add(stage.b.leader[TopicPartition("A.t", WELL)].node)
        for _ in range(400):
            stage.sources[WELL].data(200)
        stage.a.grow()
        await until(lambda: lane.pieces.unsent_bytes >= share)
        await turns(500)
        assert lane.pieces.unsent_bytes < 2 * share
        assert stage.sources[WELL].end > lane.fetch_offset


async def test_reencoded_batches_that_wait_count_in_the_budget() -> None:
    stage = Stage(msgspec.structs.replace(SHORT, buffer_budget_bytes=16 * BUFFER_BYTES))
    async with stage.running():
        await stage.start()
        leader = stage.b.leader.pop(PLACES)
        stage.look_up()
        for _ in range(3):
            stage.sources[STUCK].data(200, holes=frozenset({7}))
        stage.a.grow()
        await until(holds(stage))
        lane = stage.driver(STUCK).lane
        assert lane.reencoded > 0
        pool = stage.copier.router.pool
        await until(lambda: pool.used_bytes >= BUFFER_BYTES + lane.queued_bytes)  # beside the fetch that is waiting
        stage.b.leader[PLACES] = leader
        await stage.all_is_well()
    assert stage.copier.router.pool.used_bytes == 0


async def test_lanes_of_a_throttled_broker_leave_half_of_the_memory_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    async with stage.running():
        await stage.start()
        router, driver = stage.copier.router, stage.driver()
        monkeypatch.setattr(router.pool, "budget_bytes", 0)
        assert not router.pool.is_short
        for connection in stage.b.connections:
            connection.throttled = True
        assert router.may_fetch(driver), "it has nothing to send"
        monkeypatch.setattr(driver.lane.pieces, "queued_bytes", 1)
        monkeypatch.setattr(router.pool, "used_bytes", 1)
        assert not router.may_fetch(driver)
        for connection in stage.b.connections:
            connection.throttled = False
        assert router.may_fetch(driver)
        monkeypatch.undo()


async def test_a_batch_that_inflates_beyond_the_limit_is_refused_with_what_would_be_right() -> None:
    stage = Stage(msgspec.structs.replace(SHORT, inflated_bytes=100))
    async with stage.running():
        await stage.start()
        source, driver = stage.sources[WELL], stage.driver(WELL)
        error = BatchTooLarge("t", WELL, 7, "gzip: more than 100 bytes when inflated")
        stage.copier._failures.corrupt(driver, error)
        (event,) = stage.told(BatchRefused)
        assert stage.state(WELL) is State.FAILED
        assert "source offset 7" in event.text()
        assert "raymirror.batch.inflated.bytes, now 100" in event.text()
        assert source.end == 0


async def test_a_batch_too_large_for_the_target_that_cannot_be_opened_stops_its_lane_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BatchTooLarge("A.t", WELL, 0, "zstd: more than 100 bytes when inflated")

    monkeypatch.setattr(failure_handler, "reencode", refuse)
    stage = Stage()
    async with stage.running():
        await stage.start()
        stage.sources[WELL].vanish(3)
        stage.fill(WELL)
        await until(lambda: stage.whole(WELL))
        first = stage.sources[WELL].end
        stage.targets[WELL].max_bytes = 100
        stage.fill(WELL)
        await until(lambda: stage.state(WELL) is State.FAILED)
        (event,) = stage.told(BatchRefused)
        assert isinstance(event, BatchRefused)
        assert event.source_offset == first, "of the source, not of the batch that was made of it"
        stage.fill(STUCK)
        await until(lambda: stage.whole(STUCK))


async def test_a_lane_whose_positions_take_long_gives_back_ever_later_and_so_gets_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time it gives back, its next position has to be written anew: given back too early it never sends."""
    monkeypatch.setattr(giving_back, "_TICK_S", 1e6)  # the test looks, by a clock of its own
    stage = Stage()
    stage.b.leader[PLACES] = Leader(7, 0, f"id-{POSITIONS}")
    async with stage.running():
        await stage.start()
        lane, pool, look = stage.driver(STUCK).lane, stage.copier.router.pool, stage.copier.router.giving_back.check

        def answer_positions() -> bool:
            """Answer what was asked up to now, and nothing of what is asked next."""
            stage.b.thaw(7)
            stage.b.frozen.add(7)
            return False

        async def stands_still(began: float, *, for_s: float) -> None:
            await until(lambda: lane.plan_needed and stage.driver(STUCK).positions.writing and holds(stage)())
            await until(lambda: pool.is_short)
            look(began)
            look(began + for_s)

        stage.b.frozen.add(7)
        stage.fill(STUCK)
        now = 0.0
        for patience in (0.8, 1.6, 3.2):
            await stands_still(now, for_s=patience - 0.1)
            assert lane.queued_bytes > 0, f"a position may take {patience} s"
            look(now + patience + 0.1)
            assert lane.queued_bytes == 0, "the next one may never be answered: others need the memory"
            await until(lambda: answer_positions() or not stage.driver(STUCK).positions.writing)
            now += patience + 1
            look(now)
        await stands_still(now, for_s=6.3)
        copied = len(stage.copied(STUCK))
        answer_positions()
        await until(lambda: len(stage.copied(STUCK)) > copied)
        stage.b.thaw(7)
        await until(lambda: stage.whole(STUCK))
        stage.b.frozen.add(7)
        stage.fill(STUCK)
        await stands_still(now + 1000, for_s=0.9)
        assert lane.queued_bytes == 0, "long after, it is a lane as any other"
        stage.b.thaw(7)
        look(now + 1002)
        await stage.all_is_well()


@pytest.mark.parametrize(("budget_mib", "asked_kib"), [(8, 128), (64, 512)])
async def test_with_little_memory_a_partition_gets_little_of_it_in_one_fetch(budget_mib: int, asked_kib: int) -> None:
    stage = Stage(msgspec.structs.replace(SHORT, buffer_budget_bytes=budget_mib * 1024 * 1024))
    async with stage.running():
        await stage.start()
        stage.fill(WELL)
        await until(lambda: stage.fetches_of(WELL) > 1)
    assert {want.max_bytes for _, wanted in stage.a.fetches for want in wanted} == {asked_kib * 1024}

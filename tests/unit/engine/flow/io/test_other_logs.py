"""A leader whose log ends where the lane's copy does, with something else in the place of its last record or marker."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from copy import copy

import msgspec
import pytest

from engine.core.events.events import ForeignWriter, OwnershipLost, TargetCut, TargetGap
from engine.core.lane.states import State
from engine.core.position.position import Behind
from engine.core.position.target_tail import Tail, TailBatch
from engine.flow.io import leader_ends
from engine.flow.lane.lane_leaders import KnownLeader, LaneLeaders
from engine.flow.ports.ports import Leader
from engine.wire.batch import read_header, restamp
from policies.model import TopicPartition
from tests.fakes.target_broker import FakeTargetBroker
from tests.unit.engine.flow.io.test_leader_ends import COPY, Cut, a_second_owner, elect_with_late_requests, mapped
from tests.unit.engine.flow.io.test_leader_epochs import Watched
from tests.unit.engine.flow.ownership.test_takeover import mm2_copied
from tests.unit.engine.flow.stage import TERMS, until

_WITH_OTHER_WRITERS = msgspec.structs.replace(TERMS, stop_on_foreign_writer=False)


class Elected(Cut):
    """One lane, and brokers that come back with another log."""

    def take_late(self, number: int, sequence: int, producer: tuple[int, int]) -> None:
        """Let the leader's log have taken one of the source's batches from an earlier owner."""
        batch = bytearray(copy(self.sources[0].batches[number]).encode())
        restamp(batch, 0, read_header(batch, 0), *producer, sequence)
        self.targets[0].store_late(bytes(batch))

    async def owned(self) -> None:
        await until(lambda: self.state() is State.COPYING and self.driver().positions.settled)

    async def judged(self) -> None:
        """The lane is copied whole again, or has stopped because that cannot be known."""
        self.a.grow()
        await until(lambda: self.state() is State.FAILED or self.written_down())

    def succeed(self, epoch: int, *, node_epoch: int = 3) -> None:
        """Another copier has the lane from now on."""
        self.b.leader[COPY] = Leader(1, node_epoch, "id-A.t")
        self.copier = self.new_copier(self.copier.options)
        self.assign(epoch=epoch)


# --- a marker of its own in the place of its last record --------------------------------------------------------------


async def test_a_keep_alives_marker_in_the_place_of_the_last_record_is_a_loss() -> None:
    """The coordinator has decided the end, the leader dies, and the marker goes to the next leader, which lost one."""
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.written_down)
        end, producer = stage.driver().lane.target_next, stage.driver().lane.producer
        stage.lose(end - 1, node=2, remembers=True)
        stage.b.led(COPY).marker(*producer)
        stage.more()
        await until(stage.written_down)
    assert stage.copied() == stage.sources[0].wanted()


async def test_a_commits_marker_in_the_place_of_the_last_record_is_a_loss() -> None:
    stage = Elected()
    stage.copier = stage.new_copier(msgspec.structs.replace(TERMS, commit_s=0.05))
    stage.assign()
    async with stage.running():
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.written_down)
        producer_id, log = stage.driver().lane.producer[0], stage.targets[0]

        def lose_the_last(what: str) -> None:
            if what != "commit" or stage.b.leader[COPY].node == 2 or not log.batches[-1].header.is_open:
                return
            takes_part = producer_id in log.takes_part
            stage.lose(log.end - 1, node=2, remembers=True)
            if takes_part:
                log.takes_part.add(producer_id)

        stage.b.begun = lose_the_last
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.b.leader[COPY].node == 2)
        await until(lambda: stage.told(TargetCut) or stage.told(TargetGap))


# --- late requests in the place of a barrier --------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("count", [1, 2])
async def test_a_first_owners_late_first_requests_are_not_copied_again(restarts: bool, count: int) -> None:
    """No map has a record yet. The first owner's first appends were in the socket of a broker that froze."""
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.owned()
        first = stage.driver().lane.producer
    for _ in range(count):
        stage.sources[0].data(1)
    batches, end = stage.sources[0].batches, stage.sources[0].end
    stage.sources[0].batches, stage.sources[0].end = [], 0
    stage.succeed(2)

    def elect() -> None:
        stage.sources[0].batches, stage.sources[0].end = batches, end
        stage.lose(1, node=2)
        for number in range(count):
            stage.take_late(number, number, first)

    async with stage.running():
        await stage.owned()
        assert stage.driver().lane.position.behind.what is Behind.MARKER
        if not restarts:
            elect()
            await stage.judged()
    if restarts:
        assert stage.stored().behind.what is Behind.MARKER
        elect()
        stage.succeed(3, node_epoch=6)
        async with stage.running():
            await stage.judged()
    assert stage.copied() == stage.sources[0].wanted()
    assert stage.told(TargetGap) == []


async def test_late_requests_of_an_earlier_producer_id_stop_the_lane() -> None:
    """The transactional id had expired, so the next owner got another producer id: no map can tell whose they are."""
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.fill()
        first = stage.driver().lane.producer
    stage.b.transactional[TERMS.transactional_id("t", 0)] = (5000, -1)
    stage.succeed(2)
    async with stage.running():
        await stage.owned()
        assert stage.driver().lane.producer[0] == 5000
        stage.sources[0].data(1)
        stage.lose(7, node=2)
        stage.take_late(3, 6, first)
        assert stage.targets[0].end == stage.driver().lane.target_next == 8
        await stage.judged()
        assert stage.told(TargetGap)


@pytest.mark.parametrize("behind", ["marker", "foreign"])
async def test_a_next_owner_finds_late_requests_that_something_else_follows(behind: str) -> None:
    """A marker of the first owner that waited for the same broker, or a record of another writer."""
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.fill()
        first = stage.driver().lane.producer
    stage.succeed(2)
    async with stage.running():
        await stage.owned()
    elect_with_late_requests(stage, 3, count=1)
    assert stage.targets[0].end == stage.stored().target_next == 8
    if behind == "marker":
        stage.targets[0].marker(*first)
    else:
        stage.targets[0].foreign(1)
    stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
    stage.assign(epoch=3)
    async with stage.running():
        await stage.judged()
    assert max(Counter(stage.copied()).values()) == 1


async def test_an_owner_without_a_barrier_knows_that_it_follows_a_marker() -> None:
    """The last owner had a barrier, copied nothing, and left. A late request of the one before may take its place."""
    stage = Elected()
    async with a_second_owner(stage, copies=0):
        pass
    assert stage.stored().left
    assert stage.stored().behind.what is Behind.MARKER
    stage.b.all_answer = True
    stage.succeed(3)
    async with stage.running():
        await stage.owned()
        assert stage.driver().ownership.alone
        assert stage.driver().lane.position.behind.what is Behind.MARKER
        elect_with_late_requests(stage, 3, count=1)
        await stage.judged()
    assert stage.copied() == stage.sources[0].wanted()


async def test_a_leader_that_is_found_while_the_log_of_another_is_read_is_verified() -> None:
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.succeed(2)
    read, elected = stage.b.read_headers, asyncio.Event()

    async def meanwhile(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        found = await read(partition, first, end)
        if not elected.is_set() and partition == COPY:
            elected.set()
            elect_with_late_requests(stage, 3, count=1)
            stage.copier.router.leaders.look_up([stage.driver()])
            await until(lambda: stage.driver().leaders.target == Leader(1, 5, "id-A.t"))
        return found

    stage.b.read_headers = meanwhile  # type: ignore[method-assign]
    async with stage.running():
        await elected.wait()
        await until(lambda: stage.state() is State.COPYING)
        await stage.judged()
    assert stage.copied() == stage.sources[0].wanted()


@pytest.mark.parametrize(("copies", "late"), [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (5, 2)])
@pytest.mark.parametrize("restarts", [False, True])
async def test_late_requests_are_found_although_a_marker_of_this_owner_follows_them(
    copies: int, late: int, restarts: bool
) -> None:
    """Its barrier waited in the same socket: the coordinator asks one leader after the other to write a marker."""
    stage = Elected()
    async with a_second_owner(stage, count=1, copies=copies):
        producer = stage.driver().lane.producer
        if not restarts:
            elect_with_late_requests(stage, *range(3, 3 + late), count=1)
            stage.targets[0].marker(*producer)
            stage.a.grow()
            await until(lambda: stage.told(TargetGap) or (stage.told(TargetCut) and stage.written_down()))
            assert mapped(stage) == stage.targets[0].places()
    if restarts:
        elect_with_late_requests(stage, *range(3, 3 + late), count=1)
        stage.targets[0].marker(*producer)
        stage.succeed(3, node_epoch=6)
        async with stage.running():
            await stage.judged()
            assert mapped(stage) == stage.targets[0].places()
    assert stage.copied() == stage.sources[0].wanted()
    assert stage.told(TargetGap) == []


async def test_a_leader_whose_connection_is_lost_while_its_log_is_read_is_verified() -> None:
    """It comes back on the same node, and the look-up that would show it is slow."""
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.succeed(2)
    read, find, elected, gate = stage.b.read_headers, stage.b.leaders, asyncio.Event(), asyncio.Event()

    async def slow(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        if elected.is_set():
            await gate.wait()
        return await find(partitions)

    async def meanwhile(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        found = await read(partition, first, end)
        if not elected.is_set() and partition == COPY:
            elected.set()
            elect_with_late_requests(stage, 3, count=1)
            await asyncio.sleep(0.05)
        return found

    stage.b.leaders = slow  # type: ignore[method-assign]
    stage.b.read_headers = meanwhile  # type: ignore[method-assign]
    async with stage.running():
        await elected.wait()
        await until(lambda: stage.state() is State.COPYING)
        stage.a.grow()
        await asyncio.sleep(0.5)
        assert stage.driver().leaders.doubted
        gate.set()
        await stage.judged()
    assert stage.copied() == stage.sources[0].wanted()


async def test_another_writer_in_the_place_of_a_barrier_is_a_loss_although_the_log_grew_before_it() -> None:
    stage = Elected()
    stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.succeed(2)

    def write(what: str) -> None:
        if what == "acquire":
            stage.b.begun = lambda _what: None
            stage.b.led(COPY).foreign(1)

    stage.b.begun = write
    async with stage.running():
        await stage.owned()
    stored, log = stage.stored(), stage.targets[0]
    assert log.batches[-1].header.is_marker
    assert stored.behind.what is Behind.MARKER
    stage.lose(5)
    log.foreign(stored.target_next - log.end)
    stage.succeed(3, node_epoch=6)
    async with stage.running():
        await stage.judged()
        assert stage.told(TargetGap) or stage.told(TargetCut)


async def test_another_writer_in_the_place_of_a_marker_that_a_lane_settled_behind_is_a_loss() -> None:
    stage = Elected()
    stage.copier = stage.new_copier(msgspec.structs.replace(_WITH_OTHER_WRITERS, flush_s=60.0))
    stage.assign()
    async with stage.running():
        await stage.fill()
        driver, log = stage.driver(), stage.targets[0]
        log.marker(*driver.lane.producer)  # a keep-alive's
        driver.lane.state = State.SETTLING
        tail = tuple(log.headers(driver.lane.target_next))
        driver.lane.on_tail(Tail(log_start=0, end=log.end, batches=tail))
        driver.lane.on_retry()
        assert (driver.lane.target_next, driver.lane.position.behind.what) == (8, Behind.MARKER)
        stage.lose(5, node=2)
        stage.b.led(COPY).foreign(3)
        stage.copier.router.leaders.look_up([driver])
        await until(lambda: stage.told(TargetCut) or stage.told(TargetGap))


async def test_lanes_whose_connection_opens_while_they_are_acquired_are_not_doubted() -> None:
    """Over TLS or a distance it opens after the first questions."""
    stage = Watched(20)
    connect = stage.b.target_broker

    async def slow(node: int) -> FakeTargetBroker:
        await asyncio.sleep(0.05)
        return await connect(node)

    stage.b.target_broker = slow  # type: ignore[method-assign]
    doubted, begin = list[bool](), LaneLeaders.begin

    def noted(leaders: LaneLeaders, target_next: int, read: KnownLeader, epoch: int) -> None:
        begin(leaders, target_next, read, epoch)
        doubted.append(leaders.doubted)

    with pytest.MonkeyPatch.context() as within:
        within.setattr(LaneLeaders, "begin", noted)
        stage.assign()
        async with stage.running():
            await until(lambda: all(stage.state(number) is State.COPYING for number in range(20)))
    assert doubted == [False] * 20


# --- what is no loss --------------------------------------------------------------------------------------------------


async def test_without_transactional_ids_an_idle_lane_survives_a_rolling_restart_of_the_target() -> None:
    """Each owner has a producer id of its own and no barrier: right before its position is another id's record."""
    stage = Watched()
    stage.b.fenced = False
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        stage.watch()
        for epoch in range(5, 13):
            await stage.led_by(1 + epoch % 2, epoch)
        await stage.go_on()
        assert stage.told(OwnershipLost) == []


@pytest.mark.parametrize("was_here", [False, True])
async def test_a_last_request_of_mm2_right_behind_the_barrier_is_no_loss(was_here: bool) -> None:
    stage = Watched()
    stage.sources[0].data(20)
    if was_here:  # so its transactional id has a later epoch than 0
        stage.b.transactional[TERMS.transactional_id("t", 0)] = (1000, 4)
    mm2_copied(stage, list(range(19)), position=11)

    def write(what: str) -> None:
        if what == "acquired":
            stage.b.before = lambda _what: None
            mm2_copied(stage, [19], position=None)

    stage.b.before = write
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        assert stage.driver().lane.position.behind.what is Behind.OTHERS
        stage.watch()
        await stage.led_by(2, 5)
        assert "acquire" not in stage.begun
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    stage.sources[0].data(1)
    stage.a.grow()
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED or stage.written_down())
    assert stage.whole()


async def test_another_writer_right_behind_the_barrier_is_no_loss() -> None:
    stage = Watched()
    stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
    stage.assign()

    def write(what: str) -> None:
        if what == "acquired" and not stage.begun:
            stage.b.led(COPY).foreign(1)

    stage.b.before = write
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        assert stage.told(ForeignWriter)
        assert stage.driver().lane.position.behind.what is Behind.NOT_SAID
        stage.watch()
        await stage.led_by(2, 5)
        assert "acquire" not in stage.begun


# --- how much is read -------------------------------------------------------------------------------------------------


async def test_of_one_leader_some_lanes_are_read_at_a_time_also_by_two_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_ends, "_READ_AT_ONCE", 2)
    stage = Cut(6)
    stage.assign()
    async with stage.running():
        await stage.fill()
        read, reading, most = stage.b.read_headers, 0, 0

        async def counted(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
            nonlocal reading, most
            reading += 1
            most = max(most, reading)
            await asyncio.sleep(0.05)
            reading -= 1
            return await read(partition, first, end)

        stage.b.read_headers = counted  # type: ignore[method-assign]
        drivers = list(stage.copier.drivers.values())
        for driver in drivers:
            driver.leaders.begin(7, driver.leaders.known)
            driver.leaders.lead_target(Leader(2, 5, "id-A.t"))
            stage.b.leader[driver.name.target] = Leader(2, 5, "id-A.t")
        stage.copier.router.leader_ends.verify(drivers[:3])
        stage.copier.router.leader_ends.verify(drivers[3:])
        await until(lambda: all(driver.leaders.verified.node == 2 for driver in drivers))
    assert most == 2


async def test_a_leader_that_answers_slowly_keeps_no_other_lane_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that the ends and epochs prove are trusted before the others are read."""
    monkeypatch.setattr(leader_ends, "_ANSWER_S", 1000.0)
    stage = Cut(2)
    stage.assign()
    async with stage.running():
        await stage.fill()
        drivers = list(stage.copier.drivers.values())
        gate, read = asyncio.Event(), stage.b.read_headers

        async def stopped(partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
            await gate.wait()
            return await read(partition, first, end)

        stage.b.read_headers = stopped  # type: ignore[method-assign]
        drivers[1].leaders.begin(7, drivers[1].leaders.known)  # which epoch has its last record is not known
        for driver in drivers:
            stage.b.leader[driver.name.target] = Leader(2, 5, "id-A.t")
        stage.b.lose(1)
        await until(lambda: drivers[0].leaders.verified.node == 2)
        assert drivers[1].leaders.doubted
        gate.set()
        await until(lambda: drivers[1].leaders.verified.node == 2)

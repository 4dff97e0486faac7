"""A copier whose lanes copy in transactions, between clusters in memory."""

import asyncio

import msgspec
import pytest

from actors.cli.common.quiesce import is_still
from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.commit_events import CommitUndone, CommitUnmarked
from engine.core.events.events import AccessDenied, LaneRefused, LaneReleased, OwnershipLost, Resumed
from engine.core.lane.states import State
from engine.core.position.position import Position
from engine.core.streams.transaction import CommittedPositions, TransactionStage
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import NO_TRANSACTIONS
from engine.flow.replication import marker_watch
from engine.flow.replication.copier import FlowCopier
from engine.flow.replication.snapshots import is_committed
from tests.unit.engine.flow.stage import TERMS, until
from tests.unit.engine.flow.stage import Stage as _Stage

ATOMIC = msgspec.structs.replace(TERMS, commit_s=0.05)


class AtomicStage(_Stage):
    """A stage whose copier commits."""

    def new_copier(self, options: FlowOptions = ATOMIC) -> FlowCopier:
        return super().new_copier(options)

    def transaction(self, partition: int = 0) -> CommittedPositions:
        found = self.driver(partition).transaction
        assert found is not None
        return found

    def count(self, asked: str) -> int:
        return self.asked.count(asked)

    def listen(self) -> None:
        """Note what the copier asks of the target."""
        self.asked: list[str] = []
        self.b.begun = self.asked.append


def stage_of(partitions: int = 1) -> AtomicStage:
    stage = AtomicStage(partitions)
    stage.listen()
    return stage


async def test_records_and_position_become_visible_together() -> None:
    stage = stage_of(2)
    for source in stage.sources:
        source.data(5)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        assert all(stage.transaction(index).with_records for index in range(2))
    assert stage.b.transactions == {}
    found = stage.stored()
    assert (found.source_next, found.atomic) == (5, True)
    data = [one.header for one in stage.targets[0].batches if not one.header.is_control]
    assert [(one.base_offset, one.next_offset) for one in data] == [(1, 6)]
    assert stage.targets[0].end == 7, "barrier, records, commit marker"


async def test_what_was_not_committed_is_copied_again_by_the_next_owner() -> None:
    stage = stage_of()
    stage.copier = stage.new_copier(msgspec.structs.replace(ATOMIC, commit_s=1000.0, drain_s=0.0))
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced)
        stage.sources[0].data(5)
        stage.sources[0].open_data(1, 9)  # it is never caught up, so it does not commit
        stage.a.grow()
        await until(lambda: stage.driver().lane.source_next == 5)
        assert stage.copied() == []
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.copied() == list(range(5)))
    everything = [one for one in stage.targets[0].batches if one.payload]
    assert [one.aborted for one in everything] == [True, False]
    resumed = [event for event in stage.told(Resumed) if isinstance(event, Resumed)]
    assert (resumed[-1].how, resumed[-1].source_offset, resumed[-1].tail_records) == ("position", 0, 0)


@pytest.mark.parametrize("asked", ["add to transaction", "commit", "committed"])
async def test_a_lost_answer_is_asked_for_again(asked: str) -> None:
    stage = stage_of()
    left = 3

    def lose(what: str, _partitions: object) -> None:
        nonlocal left
        if what == asked and left:
            left -= 1
            raise ConnectionLost("coordinator")

    stage.b.fail = lose
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole() and not left)
    assert stage.stored().source_next == 5
    assert stage.told(OwnershipLost) == []
    assert stage.count("acquire") == 1


@pytest.mark.parametrize("asked", ["add to transaction", "commit"])
async def test_an_owner_whose_transaction_was_ended_acquires_anew(asked: str) -> None:
    stage = stage_of()
    ended = False

    def end(what: str, _partitions: object) -> None:
        nonlocal ended
        if what == asked and not ended and stage.driver().lane.announced:
            ended = True
            raise KafkaRefusal("transactional id", 47, "InvalidProducerEpoch", "")

    stage.b.fail = end
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(lambda: ended and stage.whole())
    assert stage.copied() == list(range(5))
    assert stage.count("acquire") == 2


async def test_what_a_coordinator_refuses_for_good_stops_the_lane() -> None:
    stage = stage_of()

    def refuse(what: str, _partitions: object) -> None:
        if what == "add to transaction":
            raise KafkaRefusal("transactional id", 42, "InvalidRequest", "mend the request")

    stage.b.fail = refuse
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED)
    (event,) = stage.told(LaneRefused)
    assert "mend the request" in event.text()


@pytest.mark.parametrize("asked", ["add to transaction", "commit"])
async def test_a_right_that_a_transaction_needs_may_go_and_come_back(asked: str) -> None:
    stage = stage_of()
    refused = 0

    def refuse(what: str, _partitions: object) -> None:
        nonlocal refused
        if what == asked and refused < 3:
            refused += 1
            raise KafkaRefusal("transactional id", 53, "TransactionalIdAuthorizationFailed", "grant Write")

    stage.b.fail = refuse
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    (denied,) = stage.told(AccessDenied)
    assert "grant Write" in denied.text()
    assert (refused, len(stage.told(LaneReleased)), stage.count("acquire")) == (3, 1, 1)


async def test_without_permission_for_transactional_ids_a_lane_waits_for_it() -> None:
    stage = stage_of()
    stage.b.fenced = False
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(AccessDenied))
        assert stage.copied() == []
        stage.b.fenced = True
        await until(stage.whole)
    (event,) = stage.told(AccessDenied)
    assert "exactly.once.source.support" in event.text()


async def test_on_brokers_without_transactions_a_lane_is_refused_at_once() -> None:
    stage = stage_of()
    stage.b.fenced, stage.b.unfenced_by = False, NO_TRANSACTIONS
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(LaneRefused))
        assert (stage.copied(), stage.state()) == ([], State.FAILED)
    assert "the target has no transactions" in stage.told(LaneRefused)[0].text()


async def test_nothing_is_begun_or_committed_without_a_lease() -> None:
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced and stage.transaction().stage is TransactionStage.CLOSED)
        stage.copier.hold()
        before = len(stage.asked)
        stage.driver().positions.flush_asked = True
        stage.driver().lane.position_version += 1
        stage.copier.router.schedule_send([stage.driver()])
        await asyncio.sleep(0.1)
        assert {"add to transaction", "commit", "append"}.isdisjoint(stage.asked[before:])
        stage.copier.unhold()
        stage.sources[0].data(5)
        stage.a.grow()
        await until(stage.whole)


async def test_a_fence_is_kept_alive_by_a_commit_that_reaches_every_partition() -> None:
    stage = stage_of()
    stage.copier = stage.new_copier(msgspec.structs.replace(ATOMIC, keep_alive_s=0.3))
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced)
        before = [log.end for log in (stage.targets[0], stage.blocks)]
        await until(lambda: [log.end for log in (stage.targets[0], stage.blocks)] > before)
        stage.sources[0].data(5)
        stage.a.grow()
        await until(stage.whole)
    assert "keep alive" not in stage.asked
    assert stage.told(OwnershipLost) == []


async def test_a_set_moves_with_everything_committed() -> None:
    stage = stage_of()
    stage.copier = stage.new_copier(msgspec.structs.replace(ATOMIC, commit_s=1000.0))
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced)
        stage.sources[0].data(5)
        stage.sources[0].open_data(1, 9)
        stage.a.grow()
        await until(lambda: stage.driver().lane.source_next == 5)
        assert stage.copied() == []
        await stage.copier.release("s")
        assert stage.copied() == list(range(5))
        assert stage.stored().source_next == 5


async def test_switched_off_and_on_again() -> None:
    stage = stage_of()
    for epoch, options in enumerate((ATOMIC, TERMS, ATOMIC), start=1):
        stage.copier = stage.new_copier(options)
        stage.sources[0].data(5)
        stage.assign(epoch=epoch)
        async with stage.running():
            await until(stage.whole)
        found = stage.stored()
        assert isinstance(found, Position)
        assert (found.atomic, found.source_next) == (options.commit_s > 0, 5 * epoch)
    assert stage.copied() == list(range(15))


async def test_a_lane_that_has_nothing_to_copy_watches_behind_its_commit_marker() -> None:
    stage = stage_of(40)
    for source in stage.sources:
        source.data(1)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in range(40)))
    stage.listen()
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: all(stage.state(index) is State.WATCHING for index in range(40)))
        stage.sources[3].data(1)
        stage.a.grow()
        await until(lambda: stage.whole(3))
    assert stage.count("acquire") == 1


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for markers without waiting."""
    monkeypatch.setattr(marker_watch, "_LOOK_S", 0.0)


async def test_the_next_commit_covers_one_whose_marker_was_left_out() -> None:
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced and stage.transaction().stage is TransactionStage.CLOSED)
        stage.b.unmarked.add(stage.driver().partition)
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: stage.stored().source_next == 5)
        assert stage.copied() == [], "nobody sees what has no marker"
        stage.b.unmarked.clear()
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: stage.copied() == list(range(10)))
    assert stage.count("acquire") == 1
    assert [one.aborted for one in stage.targets[0].batches if one.payload] == [False, False]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("part", ["records", "position"])
async def test_a_lane_with_nothing_to_copy_commits_again_what_got_no_marker(part: str) -> None:
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced and stage.transaction().stage is TransactionStage.CLOSED)
        driver = stage.driver()
        log = driver.partition if part == "records" else driver.position_appender.partition
        stage.b.unmarked.add(log)
        commits = stage.count("commit")
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: stage.count("commit") > commits + 1)  # it tries again while there is no leader
        stage.b.unmarked.clear()
        await until(stage.whole)
        await until(lambda: stage.b.targets[log].open_since(driver.producer.producer_id if driver.producer else 0) < 0)
    assert stage.count("acquire") == 1
    assert bool(stage.told(CommitUnmarked)) is (part == "records")


@pytest.mark.usefixtures("at_once")
async def test_what_cannot_be_asked_about_is_asked_again_and_what_may_not_be_is_left() -> None:
    stage = stage_of()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced and stage.transaction().stage is TransactionStage.CLOSED)
        asked = 0

        def fail(what: str, _partitions: object) -> None:
            nonlocal asked
            if what == "producers":
                asked += 1
                if asked < 3:
                    raise ConnectionLost("leader")
                raise KafkaRefusal("producers", 29, "TopicAuthorizationFailed", "grant Read")

        stage.b.fail = fail
        stage.b.unmarked.add(stage.driver().partition)
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: asked >= 5)  # both at once, then each
        before = asked
        await asyncio.sleep(0.1)
        assert asked == before, "refused for good"
        stage.b.unmarked.clear()
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.copied() == list(range(6)))


async def test_a_commit_that_the_next_owners_barrier_undid_is_copied_again() -> None:
    stage = stage_of()
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.b.unmarked.add(stage.driver().partition)
        for _ in range(3):
            before = stage.stored().source_next
            stage.sources[0].data(4)
            stage.a.grow()
            await until(lambda: stage.stored().source_next == before + 4)  # noqa: B023
    assert stage.copied() == [0, 1, 2]
    stage.b.unmarked.clear()
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.copied() == list(range(15)))
    (event,) = stage.told(CommitUndone)
    assert isinstance(event, CommitUndone)
    assert (event.source_offset, event.last - event.first + 1) == (3, 12)


async def test_a_lane_whose_commit_was_undone_does_not_rest() -> None:
    """An owner put up its barrier and died: what lies behind the position looks like the marker of the commit."""
    stage = stage_of(40)
    for source in stage.sources:
        source.data(1)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in range(40)))
        open_one, undone = stage.driver(3), stage.driver(4)
        told = {index: stage.transaction(index).told_version for index in (3, 4)}
        stage.b.unmarked |= {open_one.partition, undone.partition}
        for index in (3, 4):
            stage.sources[index].data(1)
        stage.a.grow()
        await until(lambda: all(stage.transaction(index).told_version > told[index] for index in (3, 4)))
        ends = {index: stage.driver(index).lane.target_next for index in (3, 4)}
    stage.b.unmarked.clear()
    await stage.b.acquire(undone.transactional_id, undone.fenced_partitions)
    assert [stage.targets[index].end - ends[index] for index in (3, 4)] == [0, 1]
    stage.listen()
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.whole(3) and stage.whole(4))
    assert stage.count("acquire") == 2


@pytest.mark.usefixtures("at_once")
async def test_a_paused_lane_is_still_when_what_it_copied_is_committed() -> None:
    stage = stage_of()
    held = True

    def hold(what: str, _partitions: object) -> None:
        if what == "commit" and held and stage.driver().lane.announced:
            raise ConnectionLost("coordinator")

    stage.b.fail = hold
    stage.assign()
    async with stage.running():
        await until(lambda: stage.driver().lane.announced and stage.transaction().stage is TransactionStage.CLOSED)
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: stage.driver().lane.source_next == 5)
        stage.copier.pause(None)
        await until(lambda: stage.transaction().stage is TransactionStage.ENDING)
        (lane,) = stage.copier.progress().lanes
        assert (lane.state, lane.in_flight, lane.queued_bytes) == ("paused", 0, 0)
        assert not is_still(lane), "its records may be rolled back"
        assert "until what it has copied is committed" in lane.reason
        held = False
        await until(lambda: is_still(stage.copier.progress().lanes[0]))
        assert stage.copied() == list(range(5))
        assert stage.stored().source_next == 5
        assert stage.copier.progress().lanes[0].reason == "paused"


@pytest.mark.usefixtures("at_once")
async def test_a_paused_lane_is_not_still_while_its_commit_has_no_marker() -> None:
    stage = stage_of()
    stage.assign()

    def still() -> bool:
        return is_still(stage.copier.progress().lanes[0])

    async with stage.running():
        await until(lambda: stage.driver().lane.announced and is_committed(stage.driver()))
        stage.b.unmarked.add(stage.driver().partition)
        stage.sources[0].data(5)
        stage.a.grow()
        await until(lambda: stage.driver().lane.source_next == 5)
        stage.copier.pause(None)
        commits, seen_still = stage.count("commit"), False

        def tried_again() -> bool:
            nonlocal seen_still
            seen_still = seen_still or still()
            return stage.count("commit") > commits + 3

        await until(tried_again)
        assert not seen_still, "readers of committed records see nothing yet"
        stage.b.unmarked.clear()
        await until(still)
        assert stage.copied() == list(range(5))

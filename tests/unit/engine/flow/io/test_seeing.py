"""A copier's report of its lanes: how far behind, and why one makes no progress. Clusters in memory."""

from collections.abc import Sequence

import pytest

from engine.base.clock import wall_ms
from engine.core.lane.intake import work_for
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.states import LaneTrigger, State, step
from engine.core.lane.stretch_intake import take_in_stretches
from engine.core.reports.progress import LaneProgress
from engine.core.reports.source_end import UNREACHED_END_LASTS_MS
from engine.flow.io.ends import SourceEnds
from engine.flow.ports.ports import Leader
from engine.flow.replication import snapshots
from tests.unit.engine.core.lanes import Shares
from tests.unit.engine.core.positions import position
from tests.unit.engine.flow.stage import Stage, until


def lane(stage: Stage, partition: int = 0) -> LaneProgress:
    return next(one for one in stage.copier.progress().lanes if one.lane.partition == partition)


async def test_a_lane_that_has_everything_is_not_behind_and_gives_no_reason() -> None:
    stage = Stage()
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await until(lambda: lane(stage).source_next == lane(stage).source_end)
        seen = lane(stage)
        assert (seen.lag_records, seen.lag_bytes, seen.lag_ms(wall_ms()), seen.reason) == (0, 0, 0, "")
        assert seen.newest_ms == 1_700_000_000_004
        assert seen.appended_at_ms > 0
        assert seen.latency_ms > 0


async def test_counters_and_latencies_do_not_fall_when_a_lane_leaves() -> None:
    stage = Stage()
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await until(lambda: stage.copier.progress().records == 5)
        before = stage.copier.progress()
        await stage.copier.release("s")
        after = stage.copier.progress()
    assert after.lanes == ()
    (left,) = after.left
    assert (left.topic, left.records, left.wire_bytes) == ("t", 5, before.wire_bytes)
    assert left.latency_ms == before.lanes[0].latency_ms
    assert after.replication_latency.count == before.replication_latency.count == 5
    assert after.record_age.count >= 5
    assert after.append_latency.count >= 1


async def test_lag_is_told_in_bytes_by_what_was_copied_and_in_seconds_by_the_head_of_the_queue() -> None:
    stage = Stage()
    stage.assign()
    async with stage.running():
        for _ in range(4):
            stage.sources[0].data(10)
        stage.a.grow()
        await until(stage.whole)
        stage.copier.pause(None)
        copied_bytes = await settled_bytes(stage)
        stage.sources[0].data(10)
        driver = stage.driver()
        driver.end.at_ms = 0
        await SourceEnds(stage.a, stage.copier.drivers).refresh()
        seen = lane(stage)
        assert (seen.state, seen.reason, seen.lag_records) == ("paused", "paused", 10)
        assert seen.lag_bytes == round(copied_bytes / 4)
        assert 0 <= seen.lag_ms(wall_ms()) < 60_000  # since it last had everything, though its records are years old


async def settled_bytes(stage: Stage) -> int:
    await until(lambda: lane(stage).records == 40)
    return lane(stage).wire_bytes


@pytest.mark.parametrize(
    ("ways", "state"),
    [
        ((), State.ACQUIRING),
        ((LaneTrigger.OWNED, LaneTrigger.APPEND_FAILED), State.TROUBLED),
        ((LaneTrigger.OWNED, LaneTrigger.APPEND_FAILED, LaneTrigger.RESEND), State.WAITING),
        ((LaneTrigger.OWNED, LaneTrigger.APPEND_FAILED, LaneTrigger.SETTLE), State.SETTLING),
        ((LaneTrigger.OWNED, LaneTrigger.APPEND_FAILED, LaneTrigger.REFUSE), State.REFUSED),
        ((LaneTrigger.STOP,), State.STOPPED),
        ((LaneTrigger.FATAL,), State.FAILED),
    ],
)
async def test_every_state_but_copying_has_a_reason(ways: Sequence[LaneTrigger], state: State) -> None:
    stage = Stage()
    stage.assign()
    driver = stage.driver()
    for event in ways:
        driver.lane.state = step(driver.lane.state, event)
    assert driver.lane.state is state
    assert snapshots.why_still(driver, stage.copier.router, wall_ms())
    driver.health.reason = "this one"
    assert snapshots.why_still(driver, stage.copier.router, wall_ms()) == "this one"


def test_the_states_with_reasons_are_all_there_are() -> None:
    assert {*snapshots._BY_STATE, *snapshots._AT_WORK} == set(State)


async def test_what_the_target_said_of_an_append_is_in_the_reason_until_one_is_acknowledged() -> None:
    stage = Stage()
    stage.assign()
    stage.sources[0].data(3)
    async with stage.running():
        await until(lambda: stage.whole() and lane(stage).records == 3)
        driver = stage.driver()
        piece = driver.next_batch()
        assert piece is None
        driver.on_outcome(None, Outcome(OutcomeKind.RETRY, message="NOT_ENOUGH_REPLICAS"))  # type: ignore[arg-type]
        assert driver.health.fault == "NOT_ENOUGH_REPLICAS"
        stage.sources[0].data(3)
        stage.a.grow()
        await until(lambda: lane(stage).records == 6)
        assert driver.health.fault == ""


async def test_a_lane_without_a_way_says_where_it_ends() -> None:
    stage = Stage()
    stage.assign()
    stage.sources[0].data(3)
    async with stage.running():
        await until(lambda: stage.whole() and lane(stage).records == 3)
        driver = stage.driver()
        driver.watch.appended_at_ms = 0
        assert lane(stage).reason == ""
        driver.end.offset += 1
        assert lane(stage).reason == "waits for a fetch from source broker 1"
        for side, whose, broken in (
            ("target", driver.leaders, "target"),
            ("source", driver.leaders, "source"),
            ("positions", driver.position_appender, "leader"),
            ("offset map", driver.block_appender, "leader"),
        ):
            known = getattr(whose, broken)
            setattr(whose, broken, Leader(-1, -1, ""))
            assert f"no leader for {side} partition" in lane(stage).reason
            setattr(whose, broken, known)
        outbox = next(door.box for door in stage.copier.router._outboxes.values() if driver in door.lanes)
        stage.b.connections[0].throttled = stage.b.connections[-1].throttled = True
        assert outbox.throttled
        assert lane(stage).reason == "throttled by the quota of target broker 1"
        for connection in stage.b.connections:
            connection.throttled = False
        (inbox,) = (door.box for door in stage.copier.router._inboxes.values())
        inbox.throttled = True
        assert lane(stage).reason == "throttled by the quota of source broker 1"
        inbox.throttled = False
        inbox.connected = False
        assert lane(stage).reason == "no connection to source broker 1"
        inbox.connected = True
        stage.copier.hold()
        assert "lease" in lane(stage).reason
        stage.copier.unhold()


async def test_without_a_connection_to_the_source_the_lag_is_soon_unknown_and_says_why() -> None:
    stage = Stage()
    stage.assign()
    stage.sources[0].data(3)
    async with stage.running():
        await until(lambda: lane(stage).records == 3 and lane(stage).lag_records == 0)
        driver, router = stage.driver(), stage.copier.router
        (inbox,) = (door.box for door in router._inboxes.values())
        driver.watch.appended_at_ms = 0
        heard_ms = driver.end.at_ms

        def seen_after(ms: int) -> tuple[bool, str]:
            seen = snapshots.lane_progress(driver, router, heard_ms + ms)
            return seen.lag_known, seen.reason

        assert seen_after(UNREACHED_END_LASTS_MS + 1) == (True, "")
        router._inboxes[1, 0].lost()
        inbox.connected = False
        assert seen_after(UNREACHED_END_LASTS_MS - 1) == (True, "")
        assert seen_after(UNREACHED_END_LASTS_MS + 1) == (False, "no connection to source broker 1")
        driver.end.reported(3, heard_ms)  # its leader answers who asks it over another connection
        assert seen_after(UNREACHED_END_LASTS_MS + 1) == (True, "")


async def test_a_copier_that_has_ended_in_order_knows_the_lag_that_it_had() -> None:
    stage = Stage()
    stage.assign()
    stage.sources[0].data(3)
    async with stage.running():
        await until(lambda: lane(stage).records == 3 and lane(stage).lag_records == 0)
    driver = stage.driver()
    last = snapshots.lane_progress(driver, stage.copier.router, driver.end.at_ms + UNREACHED_END_LASTS_MS + 1)
    assert (last.source_reached, last.lag_records) == (True, 0)


async def test_a_target_broker_that_is_away_is_named() -> None:
    stage = Stage()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
        stage.b.down.add(1)
        stage.b.lose(1)
        stage.sources[0].data(3)
        stage.a.grow()
        await until(lambda: lane(stage).reason == "no connection to target broker 1")
        stage.b.down.clear()
        await until(stage.whole)


async def test_a_lane_says_what_it_waits_for_on_an_open_way() -> None:
    stage = Stage()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().end.at_ms > 0)
        driver, router = stage.driver(), stage.copier.router
        now_ms = driver.end.at_ms
        told: list[str] = []

        def ask(at_ms: int = now_ms) -> None:
            told.append(snapshots.why_still(driver, router, at_ms))

        stage.copier.pause(None)
        ask()
        driver.lane.paused = False
        ask()
        ask(now_ms + 60_000)
        driver.end.offset += 10
        ask()
        driver.health.hold.since_s = 1.0
        ask()
        driver.lane.pieces.queued_bytes = 1
        ask()
        driver.lane.pieces.queued_bytes = 0
        driver.lane.draining = True
        ask()
        driver.lane.draining = False
        stage.copier.pause(None)
    assert told == [
        "paused",
        "",
        "waits for a fetch from source broker 1",
        "waits for a fetch from source broker 1",
        "waits at the last stable offset for an open transaction",
        "waits for its turn at target broker 1",
        "drains",
    ]


async def test_an_append_without_its_answer_and_a_position_not_durable_are_what_a_lane_waits_for() -> None:
    stage = Stage()
    stage.assign()
    driver, router = stage.driver(), stage.copier.router
    driver.leaders.target = Leader(3, 0, "id")
    driver.lane.own(position(0, 0), barrier_done=True)
    driver.end.reported(5, wall_ms())
    assert snapshots._waits_for(driver, watched=True) == "waits until its position is durable"
    driver.lane.on_position_durable(driver.lane.plan_version)
    stage.sources[0].data(5)
    buffer = bytearray(stage.sources[0].fetch(0, 1)[0])
    take_in_stretches(
        driver.lane,
        work_for(driver.lane, memoryview(buffer), 0, len(buffer), aborted=[], max_batch_bytes=1000),
        Shares(),
    )
    assert driver.next_batch() is not None
    assert snapshots._waits_for(driver, watched=True) == "waits for the acknowledgement of target broker 3"
    assert snapshots.lane_progress(driver, router, wall_ms()).in_flight == 1


async def test_the_lag_of_a_partition_whose_source_has_no_leader_is_unknown_and_that_of_others_known() -> None:
    stage = Stage(2)
    stage.assign()
    async with stage.running():
        await until(lambda: all(one.lag_known for one in stage.copier.progress().lanes))
        leaderless, led = stage.driver(0), stage.driver(1)
        stage.a.leader[leaderless.name.source] = Leader(-1, -1, "")
        stage.copier.router.lose_source(leaderless)
        told, router = wall_ms() + 60_000, stage.copier.router
        led.end.reported(0, told)
        seen = [snapshots.lane_progress(driver, router, told) for driver in (leaderless, led)]
        assert [one.lag_known for one in seen] == [False, True]
        assert [one.lag_ms(told) for one in seen] == [-1, 0]
        assert "no leader for source partition t-0" in seen[0].reason

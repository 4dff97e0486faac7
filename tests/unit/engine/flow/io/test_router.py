"""Lookup of leaders and moves between them; unused connections are closed."""

import asyncio
from collections.abc import Sequence

import pytest

from engine.core.lane.outcome import Outcome
from engine.core.lane.states import State
from engine.flow.io import inbox, leaders
from engine.flow.io import router as router
from engine.flow.lane import lane_leaders
from engine.flow.ports.ports import Append, FetchOptions, Leader, OnOutcomes, PartitionFetch, Room
from engine.kafka.data.source import fetch_fault
from engine.kafka.protocol.faults import append_kind
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.fakes.cluster import FakeSourceBroker
from tests.fakes.target_broker import FakeTargetBroker
from tests.unit.engine.flow.stage import Stage, until

NOT_LEADER = 6


def count_leaders(stage: Stage) -> list[list[int]]:
    """Note the partitions of topic t that each look-up at the source is about."""
    seen: list[list[int]] = []

    def fail(what: str, partitions: object) -> None:
        if what == "leaders":
            assert isinstance(partitions, list)
            seen.append([one.partition for one in partitions])

    stage.a.fail = fail
    return seen


async def test_a_partition_without_a_leader_is_looked_up_ever_less_often_and_alone() -> None:
    stage = Stage(3)
    for source in stage.sources:
        source.data(2)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(index) for index in range(3)))
        seen = count_leaders(stage)
        gone = TopicPartition("t", 1)
        known = stage.a.leader.pop(gone)
        stage.copier.router.leaders.look_up(stage.copier.drivers.values())
        await until(lambda: len(seen) >= 4)
        assert seen[0] == [0, 1, 2]
        assert all(asked == [1] for asked in seen[1:])
        assert stage.copier.router.leaders.source._leaderless[stage.driver(1)] >= 3
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(0))
        stage.a.leader[gone] = known
        stage.sources[1].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(1))
        assert stage.copier.router.leaders.source._leaderless == {}  # the next time begins with a look-up at once


async def test_a_partition_that_no_broker_serves_is_not_asked_for_all_the_time() -> None:
    stage = Stage(2)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state(0) is stage.state(1) is State.COPYING)
        stage.a.fault = lambda want: fetch_fault(NOT_LEADER, "t") if want.partition.partition == 1 else None
        stage.a.fetches.clear()
        stage.a.grow()
        await until(lambda: stage.driver(1).leaders.faults >= 3)
        asked = sum(any(want.partition.partition == 1 for want in wanted) for _, wanted in stage.a.fetches)
        assert asked <= stage.driver(1).leaders.faults + 1
        stage.sources[0].data(2)
        stage.sources[1].data(2)
        stage.a.grow()
        await until(lambda: stage.whole(0))
        stage.a.fault = lambda _want: None
        await until(lambda: stage.whole(1))


async def test_a_new_leader_gets_nothing_before_the_former_one_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen broker that answers late: a batch that went elsewhere meanwhile would be answered out of turn."""
    stage, copy = Stage(), TopicPartition("A.t", 0)
    held: list[tuple[int, OnOutcomes]] = []

    def freeze(connection: FakeTargetBroker) -> None:
        append = connection.append

        def hold(appends: Sequence[Append], on_outcomes: OnOutcomes) -> None:
            if any(one.partition == copy for one in appends):
                held.append((len(appends), on_outcomes))
            else:
                append(appends, on_outcomes)

        monkeypatch.setattr(connection, "append", hold)

    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        for connection in stage.b.connections:
            freeze(connection)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: held)
        driver = stage.driver()
        stage.b.leader[copy] = Leader(8, 2, "id-A.t")
        stage.copier.router.leaders.look_up([driver])
        await until(lambda: driver.leaders.verified.node == 8 and not driver.leaders.doubted)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: driver.lane.fetched == 6)
        await turns()
        for count, answer in held:
            answer([Outcome(append_kind(NOT_LEADER), error_code=NOT_LEADER)] * count)
        await until(stage.whole)
        assert stage.state() is State.COPYING


def test_every_fault_in_a_row_waits_longer_for_its_look_up_and_never_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "now_s", lambda: 1000.0)
    stage = Stage()
    stage.assign()
    driver, asked = stage.driver(), stage.copier.router.leaders
    delays: list[float] = []
    for _ in range(12):
        asked.forget(driver)
        asked.look_up_later(driver)
        delays.append(asked.source._due[driver] - 1000.0)
    assert delays[0] <= 0.0 < 0.05 < delays[1] < 0.2
    assert 0.5 < delays[-1] <= 1.2
    asked.look_up([driver])  # somebody else's reason is not this lane's fault
    assert asked.source._due[driver] <= 1000.0


async def test_a_fault_long_after_the_last_one_is_a_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_leaders, "_FORGIVEN_S", 0.0)
    stage = Stage()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
        for _ in range(5):
            stage.copier.router.lose_source(stage.driver())
        assert stage.driver().leaders.faults == 1


async def test_connections_to_brokers_that_no_lane_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "_CLOSE_S", 0.0)
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.a.leader[TopicPartition("t", 0)] = Leader(7, 1, "id-t")
        stage.b.leader[TopicPartition("A.t", 0)] = Leader(8, 1, "id-A.t")
        stage.copier.router.leaders.look_up([stage.driver()])
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
        found = stage.copier.router
        await until(lambda: {node for node, _ in found._inboxes} == {7})
        await until(lambda: {node for node, _ in found._outboxes} == {8, 1})  # 1 still has the positions
        await stage.copier.release("s")
        await until(lambda: found._inboxes == {} and found._outboxes == {})
        await until(lambda: all(one.lost.is_set() for one in stage.b.connections))


async def test_a_connection_that_lanes_use_is_never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "_CLOSE_S", 0.0)
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        beat = stage.copier.progress().beat
        await until(lambda: stage.copier.progress().beat > beat + 3)
        assert not any(one.lost.is_set() for one in stage.b.connections)


async def test_an_inbox_looks_at_the_lanes_of_its_own_broker_only() -> None:
    stage = Stage(4)
    for index in range(4):
        stage.a.leader[TopicPartition("t", index)] = Leader(1 + index % 2, 0, "id-t")
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.state(index) is State.COPYING for index in range(4)))
        doors = stage.copier.router._inboxes
        lanes = {
            node: sorted(driver.name.source.partition for driver in door.served()) for (node, _), door in doors.items()
        }
        assert lanes == {1: [0, 2], 2: [1, 3]}


async def test_a_source_that_keeps_its_metadata_to_itself_holds_no_target_look_up() -> None:
    stage, speak = Stage(), asyncio.Event()
    leaders = stage.a.leaders

    async def slow(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        await speak.wait()
        return await leaders(partitions)

    stage.assign()
    async with stage.running():
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
        stage.a.leaders = slow  # type: ignore[method-assign]
        stage.b.leader[TopicPartition("A.t", 0)] = Leader(2, 1, "id-A.t")
        stage.b.lose(1)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
        speak.set()


async def test_a_source_broker_that_is_silent_may_lead_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "SILENT_S", 0.01)
    stage, speak = Stage(), asyncio.Event()
    stage.assign()
    async with stage.running():
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
        fetch = FakeSourceBroker.fetch

        async def frozen(
            broker: FakeSourceBroker, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room
        ) -> object:
            if broker._node == 1:
                await speak.wait()
            return await fetch(broker, wanted, options, room)

        monkeypatch.setattr(FakeSourceBroker, "fetch", frozen)
        stage.a.grow()
        stage.a.leader[TopicPartition("t", 0)] = Leader(2, 1, "id-t")  # nobody says so
        stage.sources[0].data(2)
        await until(stage.whole)
        speak.set()


async def test_a_map_topic_that_was_made_again_is_named_by_its_new_id() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    blocks = TopicPartition("raymirror-map.A.internal", 0)
    async with stage.running():
        await until(stage.whole)
        before = stage.b.leader[blocks]
        assert stage.b.topic_ids[blocks.topic] == before.topic_id
        stage.b.leader[blocks] = Leader(before.node, before.epoch, "made again")
        stage.copier.router.leaders.look_up([stage.driver()])
        await until(lambda: blocks.topic not in stage.b.topic_ids)
        stage.copier.router.leaders.look_up([stage.driver()])
        await until(lambda: stage.b.topic_ids.get(blocks.topic) == "made again")
        assert stage.state() is not State.FAILED

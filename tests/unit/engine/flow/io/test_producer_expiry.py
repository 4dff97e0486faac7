"""Batches of unknown outcome: actions of lanes, by how long their leaders remember producers."""

import pytest

from engine.core.lane.states import State
from engine.flow.io import producer_expiry
from engine.flow.io.producer_expiry import FORGETS_ALL_MS
from engine.flow.lane import acquire_attempts
from engine.flow.ports.ports import Leader
from policies.model import TopicPartition
from tests.fakes.source_log import BORN_MS
from tests.unit.engine.flow.stage import Stage, until

TARGET = TopicPartition("A.t", 0)
DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("expiry_s", "before_ms"),
    [
        (DAY_S, BORN_MS - 43_200_000),
        (200.0, BORN_MS - 100_000),
        (100.0, BORN_MS - 40_000),
        (60.0, FORGETS_ALL_MS),
        (5.0, FORGETS_ALL_MS),
        (0.0, FORGETS_ALL_MS),
    ],
)
async def test_half_of_the_time_and_a_minute_at_least_are_kept_as_a_margin(
    expiry_s: float, before_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_expiry, "wall_ms", lambda: BORN_MS)
    stage = Stage()
    stage.b.expiry_s = expiry_s
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
        assert stage.driver().lane.forgets_before_ms == before_ms


async def test_a_leader_that_has_not_answered_counts_as_one_that_forgets_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, known = Stage(), {1: DAY_S * 36_500}
    asked = 0

    async def answer() -> dict[int, float]:
        nonlocal asked
        asked += 1
        return dict(known)

    monkeypatch.setattr(stage.b, "producer_expiries_s", answer)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
        lane = stage.driver().lane
        assert lane.forgets_before_ms < BORN_MS
        stage.b.leader[TARGET] = Leader(2, 1, "id-A.t")
        stage.copier.router.leaders.look_up([stage.driver()])
        before = asked
        await until(lambda: lane.forgets_before_ms == FORGETS_ALL_MS)
        await until(lambda: asked > before + 1)
        known[2] = DAY_S * 36_500
        await until(lambda: lane.forgets_before_ms < BORN_MS)
        stage.b.leader[TARGET] = Leader(-1, 1, "id-A.t")
        stage.copier.router.leaders.look_up([stage.driver()])
        await until(lambda: stage.driver().leaders.target.node < 0)
        assert lane.forgets_before_ms < BORN_MS, "nobody leads, so nothing new is known"
        stage.b.leader[TARGET] = Leader(2, 1, "id-A.t")


@pytest.mark.parametrize(("settles", "state"), [(True, State.COPYING), (False, State.FAILED)])
async def test_a_lane_that_only_asks_what_the_log_holds_may_ask_as_often_as_leaders_move(
    settles: bool, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquire_attempts, "_LONGEST_WAIT_S", 0.01)
    stage = Stage()
    stage.assign()
    async with stage.running():
        for _ in range(8):
            await until(lambda: stage.state() in (State.COPYING, State.FAILED))
            stage.copier._failures.reacquire(stage.driver(), "nobody knows", fenced=False, settles=settles)
        await until(lambda: stage.state() is state)


async def test_a_batch_that_grew_old_while_its_leader_was_away_waits_for_a_barrier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target is away for longer than it remembers producers: it would take the same batch a second time."""
    monkeypatch.setattr(producer_expiry, "wall_ms", lambda: BORN_MS)
    stage = Stage()
    stage.b.expiry_s = DAY_S
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().lane.announced)
        epoch = stage.b.transactional["raymirror.A->B.t-0"][1]
        stage.b.mute.add(1)
        stage.sources[0].data(3)
        stage.a.grow()
        await until(lambda: stage.copied() == [0, 1, 2])
        stage.b.down.add(1)
        stage.b.lose(1)
        await until(lambda: stage.state() is State.COPYING and stage.driver().lane.pieces.waiting)
        monkeypatch.setattr(producer_expiry, "wall_ms", lambda: BORN_MS + int(2000 * DAY_S))
        stage.targets[0].producers.clear()
        for at, leader in list(stage.b.leader.items()):
            stage.b.leader[at] = Leader(2, leader.epoch + 1, leader.topic_id)
        stage.copier.router.leaders.look_up([stage.driver()])
        await until(lambda: stage.state() is State.COPYING and stage.driver().lane.source_next == 3)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(lambda: stage.whole())
        assert stage.b.transactional["raymirror.A->B.t-0"][1] == epoch + 1
    assert stage.copied() == stage.sources[0].wanted()

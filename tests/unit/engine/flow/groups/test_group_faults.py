"""A group keeper when groups, brokers or ownership fail: what continues, what is reported, what is created again."""

import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import GroupBrokerAway, GroupRefused
from engine.core.events.recovery_events import WorksAgain
from engine.flow.groups import sync_loop as group_keeper
from tests.fakes.group_pair import LANE, Pair


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    made = Pair()
    made.hold_clock(monkeypatch)
    return made


async def test_one_failing_group_fails_alone(pair: Pair) -> None:
    for group in ("a", "b", "c"):
        pair.source.put(group, {LANE: 10})
    pair.source.failing = {"a": "not authorized"}
    pair.target.failing = {"b": "coordinator away"}
    await pair.keeper.open()
    for _ in range(2):
        await pair.keeper.step()
    assert [pair.committed(group) for group in ("a", "b", "c")] == [None, None, 10]
    assert pair.keeper.report.failed == {"a": "not authorized", "b": "coordinator away"}
    assert [event.group for event in pair.events(GroupRefused)] == ["a", "b"]
    pair.target.failing = {}
    await pair.keeper.step()
    assert pair.committed("b") == 10
    assert pair.keeper.report.failed == {"a": "not authorized"}


@pytest.mark.parametrize("side", ["source", "target"])
async def test_groups_of_a_broker_that_is_away_wait_and_the_others_go_on(pair: Pair, side: str) -> None:
    """They are not taken for deleted, nor for failed: one event says for which broker they wait, once it lasts."""
    for group in ("a", "b"):
        pair.source.put(group, {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    broken = pair.source if side == "source" else pair.target
    broken.away = {"a"}
    for group in ("a", "b"):
        pair.source.put(group, {LANE: 20})
    told: list[list[GroupBrokerAway]] = []
    for _ in range(3):
        await pair.keeper.step()
        assert [pair.committed(group) for group in ("a", "b")] == [10, 20]
        told.append(pair.events(GroupBrokerAway))
        pair.now_s += 11.0
    none, (event,), again = told
    assert (none, again) == ([], [])
    alias = "A" if side == "source" else "B"
    assert event.text() == (
        f"broker 3 of cluster '{alias}': this broker does not answer: broker 3: cannot connect: down; the groups that"
        " it coordinates wait (1 of the known groups); all other groups are mirrored"
    )
    report = pair.keeper.report
    assert (report.groups, report.waiting, report.failing, report.failed) == (2, 1, 0, {})
    assert report.away == {f"broker 3 of cluster '{alias}'": "broker 3: cannot connect: down (1 group)"}
    broken.away = set()
    await pair.keeper.step()
    assert pair.committed("a") == 20
    assert (pair.keeper.report.waiting, pair.keeper.report.away) == (0, {})
    (back,) = pair.keeper.take_events()  # none of a group that was refused, or of one that is gone
    assert (type(back), back.about) == (WorksAgain, f"broker 3 of cluster '{alias}'")
    broken.away = {"a"}
    pair.source.put("a", {LANE: 30})
    for expected in (0, 1):  # another stretch of it
        await pair.keeper.step()
        assert len(pair.events(GroupBrokerAway)) == expected
        pair.now_s += 11.0


async def test_nothing_is_written_while_the_flow_is_not_ours(pair: Pair) -> None:
    pair.ours = False
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.told(), pair.target.commits) == ([], [])


async def test_checkpoints_that_were_not_acknowledged_are_told_again(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    pair.cluster.down.add(1)
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.told() == []
    assert "down" in pair.keeper.report.trouble
    assert pair.keeper.report.failed_rounds == 1, "a task is told as failed when that lasts"
    pair.cluster.down.clear()
    await pair.keeper.step()
    assert (pair.told(), pair.keeper.report.trouble) == ([("g", 10, 10)], "")


async def test_rounds_go_on_behind_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(commits_s=5.0)
    pair.source.put("g", {LANE: 10})
    troubles: list[str] = []
    rounds = iter(range(4))

    def fail(asked: str) -> None:
        if asked == "list" and next(rounds) < 2:
            raise ConnectionLost("a:1")

    class Enough(Exception):
        """The test has seen what it wanted."""

    async def pause(seconds: float) -> None:
        if not seconds:
            return
        troubles.append(pair.keeper.report.trouble)
        if len(troubles) == 3:
            raise Enough

    monkeypatch.setattr(group_keeper, "pause", pause)
    pair.source.before = fail
    await pair.keeper.open()
    with pytest.raises(Enough):
        await pair.keeper.run()
    assert troubles == ["connection lost: a:1", "connection lost: a:1", ""]
    assert pair.committed() == 10
    assert pair.events(GroupRefused) == []


async def test_trouble_that_lasts_is_an_event_once(pair: Pair) -> None:
    for _ in range(5):
        pair.keeper.trouble("no permission")
    (event,) = pair.events(GroupRefused)
    assert event.text() == "consumer groups: not mirrored; raymirror retries: no permission"
    report = pair.keeper.report
    assert (report.trouble, report.failed_rounds) == ("no permission", 5)
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.keeper.report.trouble == ""
    assert [event.text() for event in pair.events(WorksAgain)] == ["consumer groups: mirrored again"]
    for _ in range(3):
        pair.keeper.trouble("again")
    assert len(pair.events(GroupRefused)) == 1

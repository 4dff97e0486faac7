"""The rounds of config sync: when they run, what they report and how often."""

import asyncio

import pytest

from engine.base.errors import BrokerUnreachable
from engine.core.events.config_events import (
    AclsAdded,
    AclsRest,
    ConfigConflicts,
    ConfigSyncFailed,
    ManyChanged,
    TopicConfigsChanged,
)
from engine.flow.config_sync import loop as config_rounds
from engine.flow.config_sync.loop import ConfigLoopOptions, ConfigSyncLoop
from engine.flow.config_sync.planning import Scope
from tests.unit.engine.flow.config_sync.test_sync import FLOW, Stage, reads
from tests.unit.engine.flow.stage import until

ALL = Scope(shapes=False)


def rounds(stage: Stage, *, configs_s: float | None = 0.01, acls_s: float | None = 0.01) -> ConfigSyncLoop:
    return ConfigSyncLoop(ConfigLoopOptions(flow=FLOW, configs_s=configs_s, acls_s=acls_s, retry_s=0.01), stage.sync)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_rounds, "_LOOK_S", 0.005)


async def test_a_round_changes_and_tells_and_the_next_does_neither() -> None:
    stage = Stage()
    stage.source.put("orders", retention_ms="5")
    stage.target.put("A.orders")
    stage.source.bindings = {reads()}
    made = rounds(stage)
    await made.round(ALL)
    changed, added = made.take_events()
    assert changed == TopicConfigsChanged(
        flow=FLOW, topic="orders", target="A.orders", changed={"retention.ms": "5"}, dropped=()
    )
    assert isinstance(added, AclsAdded)
    assert (added.name, len(added.bindings)) == ("A.orders", 1)
    assert (made.report.topics, made.report.changes, made.report.failures) == (1, 2, 0)
    written = list(stage.target.writes)
    await made.round(ALL)
    assert made.take_events() == ()
    assert stage.target.writes == written
    assert made.report.changes == 2
    del stage.source.own["orders"]["retention.ms"]
    await made.round(ALL)
    (taken,) = made.take_events()
    assert isinstance(taken, TopicConfigsChanged)
    assert (taken.changed, taken.dropped) == ({}, ("retention.ms",))


async def test_a_flow_that_is_not_ours_is_not_even_looked_at() -> None:
    stage, asked = Stage(), list[str]()
    stage.source.put("orders", retention_ms="5")
    stage.target.put("A.orders")
    stage.source.before = asked.append
    made = rounds(stage)
    made.may_write = lambda: False
    await made.tick()
    assert asked == []
    made.may_write = iter([True, False]).__next__  # it is taken from us while we look
    await made.tick()
    assert asked
    assert stage.target.writes == []
    made.may_write = lambda: True
    await made.tick()  # at once: that round was none
    assert stage.target.writes == ["A.orders: retention.ms=5"]


async def test_a_copy_that_producers_have_moved_to_keeps_its_configs() -> None:
    """Operators empty a source topic by its retention once nobody uses it."""
    stage = Stage()
    for topic in ("orders", "orders-moved"):
        stage.source.put(topic, retention_ms="1")
        stage.target.put(f"A.{topic}")
    made = rounds(stage)
    made.moved = lambda: ("orders-moved",)
    await made.round(ALL)
    assert stage.target.writes == ["A.orders: retention.ms=1"]
    made.moved = lambda: ()  # they are back
    await made.round(ALL)
    assert stage.target.writes[1:] == ["A.orders-moved: retention.ms=1"]


async def test_each_kind_has_its_own_time() -> None:
    stage, asked = Stage(), list[str]()
    stage.source.put("orders")
    stage.target.put("A.orders")
    stage.source.before = asked.append
    made = rounds(stage, configs_s=1e6)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.run())
        await until(lambda: asked.count("acls") >= 4)
        task.cancel()
    assert asked.count("configs") == 1


async def test_topics_that_are_copied_after_the_first_round_are_compared_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, now, asked = Stage(), [0.0], list[str]()
    monkeypatch.setattr(config_rounds, "now_s", lambda: now[0])
    stage.source.put("orders", retention_ms="5")
    stage.source.before = asked.append
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW, configs_s=600.0, acls_s=None), stage.sync)
    rounds_at: list[float] = []
    for second in range(700):
        now[0], before = float(second), len(asked)
        await made.tick()
        rounds_at += [now[0]] if len(asked) > before else []
    assert rounds_at == [0, 10, 30, 70, 150, 310, 630], "a topic that is never created costs a few rounds"
    assert made.report.topics == 0
    stage.target.put("A.orders")
    now[0] = 1230.0
    await made.tick()
    assert (made.report.topics, stage.target.writes) == (1, ["A.orders: retention.ms=5"])
    asked.clear()
    now[0] = 1829.0
    await made.tick()
    assert asked == [], "nothing is missing: as often as the key says"


async def test_nothing_asked_for_is_nothing_done() -> None:
    made = rounds(Stage(), configs_s=None, acls_s=None)
    assert made.idle
    await made.run()
    assert made.report.at_ms == 0


async def test_conflicts_are_told_by_kind_once_and_again_when_they_change() -> None:
    stage = Stage()
    for topic in ("orders", "orders-2"):
        stage.source.put(topic, 1)
        stage.target.put(f"A.{topic}", 2)
    made = rounds(stage)
    await made.round(ALL)
    await made.round(ALL)
    (told,) = made.take_events()
    assert isinstance(told, ConfigConflicts)
    assert (told.kind, told.count, made.report.conflicts) == ("more partitions", 2, 2)
    stage.source.put("orders", 2)
    await made.round(ALL)
    (less,) = made.take_events()
    assert isinstance(less, ConfigConflicts)
    assert less.count == 1
    stage.source.put("orders-2", 2)
    await made.round(ALL)
    assert made.take_events() == ()
    stage.source.put("orders-2", 1)
    await made.round(ALL)
    assert made.take_events() == (less,)


async def test_failures_are_written_together_once_until_they_are_mended() -> None:
    stage = Stage()
    for topic in ("orders", "orders-2"):
        stage.source.put(topic, retention_ms="5")
        stage.target.put(f"A.{topic}")
        stage.target.failing[f"A.{topic}"] = "TopicAuthorizationFailed"
    stage.source.bindings = {reads()}
    stage.target.refused_bindings = {reads("A.orders"): "denied"}
    made = rounds(stage)
    await made.round(ALL)
    await made.round(ALL)
    configs, acls = made.take_events()
    assert isinstance(configs, ConfigSyncFailed)
    assert isinstance(acls, ConfigSyncFailed)
    assert (configs.part, configs.count, acls.part, acls.count) == ("configs", 2, "ACLs", 1)
    assert made.report.failures == 6
    stage.target.failing.clear()
    stage.target.refused_bindings = {}
    await made.round(ALL)
    assert [type(event) for event in made.take_events()] == [TopicConfigsChanged, TopicConfigsChanged, AclsAdded]


async def test_of_many_changes_some_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_rounds, "_TOLD_EACH", 2)
    stage = Stage()
    for number in range(5):
        stage.source.put(f"orders-{number}", retention_ms="5")
        stage.target.put(f"A.orders-{number}")
    made = rounds(stage)
    await made.round(ALL)
    *each, rest = made.take_events()
    assert [type(event) for event in each] == [TopicConfigsChanged] * 2
    assert rest == ManyChanged(flow=FLOW, part="configs", count=3)
    assert made.report.changes == 5


async def test_a_cluster_without_acls_is_told_once() -> None:
    stage = Stage()
    stage.source.put("orders")
    stage.source.has_authorizer = False
    made = rounds(stage)
    await made.round(ALL)
    await made.round(ALL)
    assert made.take_events() == (AclsRest(flow=FLOW, cluster="A"),)


async def test_clusters_that_are_away_are_trouble_and_told_when_it_lasts() -> None:
    stage = Stage()
    stage.source.put("orders", retention_ms="5")
    stage.target.put("A.orders")
    away = True

    def fail(_asked: str) -> None:
        if away:
            raise BrokerUnreachable("a:1", "refused")

    stage.source.before = fail
    made = rounds(stage, acls_s=None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.run())
        await until(lambda: made._failures_in_row >= 4)
        away = False
        await until(lambda: stage.target.writes)
        await until(lambda: made.report.topics == 1)
        task.cancel()
    failed, again, changed = made.take_events()
    assert isinstance(failed, ConfigSyncFailed)
    assert (failed.part, "refused" in failed.first) == ("both clusters", True)
    assert again.text() == "both clusters: configs and ACLs are kept in step again"
    assert isinstance(changed, TopicConfigsChanged)
    assert made.report.trouble == ""


async def test_a_memory_that_is_handed_over_counts_at_once_and_outlives_the_round_that_runs() -> None:
    stage = Stage()
    stage.source.put("orders")
    stage.target.put("A.orders", retention_ms="5")
    made = rounds(stage, configs_s=1e6, acls_s=None)
    handed = {"orders": {"retention.ms": "5"}}

    def meanwhile(asked: str) -> None:
        if asked == "configs" and not stage.target.writes:
            stage.target.before = lambda _asked: None
            made.remember(handed)

    stage.target.before = meanwhile
    stage.source.own["orders"]["segment.bytes"] = "7"  # so that the copy is asked
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.run())
        await until(lambda: stage.target.writes)
        await until(lambda: "A.orders: retention.ms=None" in stage.target.writes)
        task.cancel()
    assert stage.target.own["A.orders"] == {"segment.bytes": "7"}


async def test_a_memory_waits_for_the_flow() -> None:
    stage, allowed = Stage(), [False]
    stage.source.put("orders")
    stage.target.put("A.orders", retention_ms="5")
    made = rounds(stage, configs_s=1e6, acls_s=None)
    made.may_write = lambda: allowed[0]
    made.remember({"orders": {"retention.ms": "5"}})
    assert made.known == {"orders": {"retention.ms": "5"}}
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.run())
        await asyncio.sleep(1.0)
        assert stage.target.writes == []
        allowed[0] = True
        await until(lambda: stage.target.writes)
        task.cancel()
    assert stage.target.writes == ["A.orders: retention.ms=None"]


async def test_without_configs_a_memory_makes_no_round() -> None:
    made = rounds(Stage(), configs_s=None, acls_s=None)
    made.remember({"orders": {"retention.ms": "5"}})
    await made.run()
    assert (made.report.at_ms, made.known) == (0, {})


@pytest.mark.parametrize(("sets", "asked"), [(True, ["restore", "look"]), (False, ["look"])])
async def test_what_is_lent_to_the_target_is_taken_back_before_configs_are_compared(
    *, sets: bool, asked: list[str]
) -> None:
    stage, seen = Stage(), list[str]()
    stage.source.put("orders")
    stage.source.before = lambda what: seen.append("look") if what == "topics" else None
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW, sets_configs=sets), stage.sync)

    async def restore() -> None:
        seen.append("restore")

    made.restore = restore
    await made.round(ALL)
    assert seen[: len(asked)] == asked

"""The history of configs that rounds leave: the same rows whether the loop or Spark plans them."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from engine.base.clock import pause
from engine.core.events.drift_events import TopicDrifted
from engine.flow.config_history.keeper import ConfigHistory
from engine.flow.config_history.rows import HistoryRow
from engine.flow.config_sync.loop import ConfigLoopOptions, ConfigSyncLoop
from engine.flow.config_sync.planning import Scope
from tests.unit.engine.flow.config_history.rounds import history_flow
from tests.unit.engine.flow.config_history.test_keeper import FakeTables
from tests.unit.engine.flow.config_sync.test_planned import FakeSpark
from tests.unit.engine.flow.config_sync.test_sync import FLOW, Stage

KEY = "retention.ms"
ROUND = Scope(acls=False, shapes=False, left=True)


class Kept:
    """A loop with a history, and what it stored."""

    def __init__(self, *, spark: bool = False, sets_configs: bool = True) -> None:
        self.stage = Stage()
        self.tables = FakeTables()
        self.history = ConfigHistory(history_flow(syncs=sets_configs), self.tables)
        self.spark = FakeSpark(self.stage) if spark else None
        self.loop = ConfigSyncLoop(
            ConfigLoopOptions(flow=FLOW, acls_s=None, sets_configs=sets_configs),
            self.stage.sync,
            planner=self.spark.planner if self.spark is not None else None,
            history=self.history,
        )

    async def round(self) -> None:
        await pause(600.0)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.spark.run()) if self.spark is not None else None
            await self.loop.tick()
            if running is not None:
                running.cancel()
        await self.history.flush()


def plain(rows: Sequence[HistoryRow]) -> list[dict[str, object]]:
    """Return rows without their times."""
    return [
        {name: value for name, value in msgspec.structs.asdict(row).items() if not name.endswith("_ms")}
        for row in rows
        if row.get("origin") != "mark"
    ]


async def lived(kept: Kept) -> Kept:
    """Live through what can happen to two topics."""
    source, target = kept.stage.source, kept.stage.target
    source.put("orders", retention_ms="5")
    source.put("orders-2")
    target.put("A.orders", retention_ms="4")
    target.put("A.orders-2")
    await kept.round()
    source.put("orders", retention_ms="6", segment_bytes="1")
    await kept.round()
    target.own["A.orders"][KEY] = "9"
    target.own["A.orders-2"][KEY] = "8"
    await kept.round()
    target.failing["A.orders"] = "denied"
    source.put("orders", retention_ms="7")
    await kept.round()
    del target.failing["A.orders"]
    target.own["A.orders-2"].pop(KEY)
    await kept.round()
    source.put("orders-3", segment_bytes="2")
    await kept.round()
    del source.partitions["orders-2"]
    await kept.round()
    return kept


async def test_loop_and_spark_leave_the_same_rows() -> None:
    loop, spark = await lived(Kept()), await lived(Kept(spark=True))
    assert spark.spark is not None
    assert len(spark.spark.rounds) == 6, "Spark plans all but the one that follows a topic without a copy"
    assert all(one.whole for one in spark.spark.rounds)
    assert plain(spark.tables.values) == plain(loop.tables.values)
    assert plain(spark.tables.changes) == plain(loop.tables.changes)
    assert plain(spark.tables.drift) == plain(loop.tables.drift)
    assert [(row.topic, row.key, row.old, row.new, row.outcome) for row in loop.tables.changes][:2] == [
        ("orders", KEY, "5", "6", "copied"),
        ("orders", "segment.bytes", None, "1", "copied"),
    ]
    assert [(row.topic, row.found, row.expected, row.outcome) for row in loop.tables.drift] == [
        ("orders", "9", "6", "set_right"),
        ("orders-2", "8", None, "left"),
        ("orders-2", "8", None, "equal_again"),
    ]
    drifts = [one for one in loop.loop.take_events() if isinstance(one, TopicDrifted)]
    assert [(one.topic, one.found, one.left) for one in drifts] == [
        ("orders", {KEY: "9"}, {}),
        ("orders-2", {KEY: "8"}, {KEY: "the source topic does not set it"}),
    ]


async def test_without_a_history_copies_are_asked_for_no_more_than_can_matter() -> None:
    stage, asked = Stage(), list[str]()
    stage.source.put("orders")
    stage.target.put("A.orders", retention_ms="9")
    stage.target.before = asked.append
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW, acls_s=None), stage.sync)
    await made.tick()
    assert asked == ["topics"]


async def test_where_configs_are_not_synced_drift_is_seen_and_left() -> None:
    kept = Kept(sets_configs=False)
    kept.stage.source.put("orders", retention_ms="5")
    kept.stage.target.put("A.orders", retention_ms="4")
    await kept.round()
    kept.stage.target.own["A.orders"][KEY] = "3"
    kept.stage.source.put("orders", retention_ms="6")
    await kept.round()
    assert kept.stage.target.writes == []
    assert kept.loop.report.changes == 0
    (row,), (change,) = kept.tables.drift, kept.tables.changes
    assert (row.found, row.expected, row.outcome, row.why) == ("3", "6", "left", "sync.topic.configs.enabled = false")
    assert (change.new, change.outcome, change.applied_ms) == ("6", "left", None)


async def test_a_mirror_that_lost_the_flow_asks_the_store_again() -> None:
    kept = Kept()
    kept.stage.source.put("orders", retention_ms="5")
    kept.stage.target.put("A.orders", retention_ms="5")
    await kept.round()
    await kept.round()
    assert kept.tables.loads == 1
    kept.loop.may_write = lambda: False
    await kept.round()
    kept.loop.may_write = lambda: True
    await kept.round()
    assert kept.tables.loads == 2


@pytest.mark.parametrize("by_spark", [False, True])
async def test_a_flow_without_topics_has_lost_all_it_had(by_spark: bool) -> None:
    kept = Kept(spark=by_spark)
    kept.stage.source.put("orders", retention_ms="5")
    kept.stage.target.put("A.orders", retention_ms="5")
    await kept.round()
    kept.stage.source.partitions.clear()
    await kept.round()
    assert {(row.side, row.topic) for row in kept.tables.values if row.origin == "gone"} == {
        ("source", "orders"),
        ("copy", "orders"),
    }

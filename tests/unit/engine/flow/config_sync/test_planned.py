"""Rounds that Spark plans: when it does, when the loop does, and what is looked at again before it is written."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from engine.base.errors import KafkaRefusal
from engine.core.events.config_events import ConfigSyncFailed
from engine.flow.config_sync import planned
from engine.flow.config_sync.loop import ConfigLoopOptions, ConfigSyncLoop
from engine.flow.config_sync.planned import LOOP, SPARK, SparkPlanner
from engine.flow.config_sync.planning import Scope
from engine.flow.config_sync.round_desk import RoundDesk
from engine.flow.config_sync.round_messages import ClusterIds, RoundPlan, RoundRequest, cut, unpack_memory
from engine.flow.config_sync.sync import ConfigSync, LookedAgain
from policies.sync.config_sync import SetConfig
from tests.unit.engine.flow.config_sync.test_sync import FLOW, Stage, reads
from tests.unit.engine.flow.stage import until

ROUND = Scope(shapes=False)
IDS = ClusterIds("one", "two")


class FakeSpark:
    """Plans what a desk asks for, with a ConfigSync of its own; `before` is called between plan and answer."""

    def __init__(self, stage: Stage, most: int = 100) -> None:
        self.stage, self.most = stage, most
        self.desk = RoundDesk()
        self.why = ""
        self.rounds: list[RoundRequest] = []
        self.before: Callable[[], object] = lambda: None
        self.planner = SparkPlanner(FLOW, self.desk, lambda: IDS)

    async def run(self) -> None:
        seen = {""}
        while True:
            await until(lambda: self.desk.wanted not in seen)
            asked = self.desk.wanted
            seen.add(asked)
            request = msgspec.msgpack.decode(self.desk.request(asked) or b"", type=RoundRequest)
            self.rounds.append(request)
            if self.why:
                self.desk.refuse(asked, self.why)
            else:
                self.desk.answer(asked, msgspec.msgpack.encode(await self._plan(request)))

    async def _plan(self, request: RoundRequest) -> RoundPlan:
        sync = ConfigSync(self.stage.sync.options, self.stage.source, self.stage.target)
        sync.known = unpack_memory(request.memory)
        plan = await sync.compare(request.scope)
        self.before()
        return cut(plan, sync.known, self.most)


async def rounds(spark: FakeSpark, *scopes: Scope, may_write: Callable[[], bool] = lambda: True) -> ConfigSyncLoop:
    """Make rounds, and return their loop."""
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW), spark.stage.sync, planner=spark.planner)
    made.may_write = may_write
    async with asyncio.TaskGroup() as group:
        running = group.create_task(spark.run())
        for scope in scopes:
            await made.round(scope)
        running.cancel()
    return made


def stage_of(*topics: str) -> Stage:
    stage = Stage()
    for topic in topics:
        stage.source.put(topic, retention_ms="5")
        stage.target.put(f"A.{topic}")
    return stage


async def test_spark_plans_and_the_loop_writes() -> None:
    stage = stage_of("orders", "orders-2")
    stage.source.bindings = {reads()}
    spark = FakeSpark(stage)
    made = await rounds(spark, ROUND, ROUND)
    assert (made.report.by, made.report.not_spark) == (SPARK, "")
    assert (made.report.topics, made.report.changes) == (2, 3)
    assert len(stage.target.writes) == 3
    first, second = spark.rounds
    assert (first.flow, first.clusters, unpack_memory(first.memory)) == (FLOW, IDS, {})
    assert unpack_memory(second.memory) == {name: {"retention.ms": "5"} for name in ("orders", "orders-2")}


async def test_what_the_source_has_lost_is_removed_whoever_plans() -> None:
    stage = stage_of("orders")
    spark = FakeSpark(stage)
    await rounds(spark, ROUND)
    del stage.source.own["orders"]["retention.ms"]
    spark.why = "Spark is starting"
    made = await rounds(spark, ROUND)
    assert (made.report.by, made.report.not_spark) == (LOOP, "Spark is starting")
    stage.source.put("orders", retention_ms="6")
    await rounds(spark, ROUND)
    del stage.source.own["orders"]["retention.ms"]
    spark.why = ""
    made = await rounds(spark, ROUND)
    assert (made.report.by, made.report.not_spark) == (SPARK, "")
    assert [one.rpartition(" ")[2] for one in stage.target.writes] == [
        f"retention.ms={value}" for value in ("5", "None", "6", "None")
    ]


async def test_what_was_done_since_the_plan_is_not_done_again() -> None:
    stage = stage_of("orders", "orders-2", "orders-3")
    spark = FakeSpark(stage)

    def meanwhile() -> None:
        stage.target.own["A.orders"]["retention.ms"] = "5"  # an earlier owner's request, which was in flight
        stage.source.own["orders-2"]["retention.ms"] = "7"

    spark.before = meanwhile
    made = await rounds(spark, ROUND)
    assert stage.target.writes == ["A.orders-2: retention.ms=7", "A.orders-3: retention.ms=5"]
    assert (made.report.changes, made.report.by) == (2, SPARK)
    spark.before = lambda: None
    await rounds(spark, ROUND)
    assert len(stage.target.writes) == 2
    assert unpack_memory(spark.rounds[-1].memory)["orders-2"] == {"retention.ms": "7"}, "as it was read last"


async def test_bindings_are_looked_at_again_too() -> None:
    stage = stage_of()
    stage.source.bindings = {reads(), reads(principal="User:bob")}
    spark = FakeSpark(stage)

    def meanwhile() -> None:
        stage.target.bindings.add(reads("A.orders"))
        stage.source.bindings.add(reads(principal="User:new"))

    spark.before = meanwhile
    await rounds(spark, ROUND)
    assert stage.target.writes == [str(reads("A.orders", principal="User:bob"))], "what is new waits for the next plan"


async def test_no_request_is_sent_once_the_flow_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(*(f"orders-{number}" for number in range(6)))
    spark = FakeSpark(stage)
    asked = iter([True, True, True, False, False])
    monkeypatch.setattr(planned, "TOPICS_AT_ONCE", 2)
    made = await rounds(spark, ROUND, may_write=lambda: next(asked))
    assert len(stage.target.writes) == 2
    assert made.report.changes == 2, "what was done is reported"
    made = await rounds(spark, ROUND)
    assert len(stage.target.writes) == 6, "nothing is left out, nothing is done again"
    assert made.report.changes == 4


async def test_a_plan_that_was_cut_is_followed_at_once() -> None:
    stage = stage_of(*(f"orders-{number}" for number in range(5)))
    spark = FakeSpark(stage, most=2)
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW, acls_s=None), stage.sync, planner=spark.planner)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(spark.run())
        for _ in range(5):
            await made.tick()  # without a pause
        running.cancel()
    assert (len(spark.rounds), len(stage.target.writes), made.report.by) == (3, 5, SPARK)


async def test_if_a_cut_plan_fails_the_loop_makes_the_whole_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(*(f"orders-{number}" for number in range(5)))
    spark = FakeSpark(stage, most=2)
    planner = spark.planner
    async with asyncio.TaskGroup() as group:
        running = group.create_task(spark.run())
        made = await planner.plan(stage.sync, ROUND)
        assert (made.by, made.more) == (SPARK, 3)
        refused = SetConfig(
            topic="orders-0", target="A.none", name="retention.ms", value="5", before="6", overrides=False, why="w"
        )
        monkeypatch.setattr(stage.sync, "look_again", lambda _changes: _given(refused))
        assert (await planner.apply(stage.sync, made, lambda: True)).whole
        made = await planner.plan(stage.sync, ROUND)
        running.cancel()
    assert (made.by, len(made.plan.changes)) == (LOOP, 5)
    assert "more changes than one may have" in made.not_spark


async def _given(*changes: SetConfig) -> LookedAgain:
    return LookedAgain(changes, {})


async def test_what_the_second_look_cannot_read_is_told_and_counted() -> None:
    stage = stage_of("orders", "orders-2")
    stage.source.bindings = {reads()}
    spark = FakeSpark(stage)

    def meanwhile() -> None:
        stage.source.failing["orders"] = "orders: denied"
        stage.target.before = refuse_acls

    def refuse_acls(asked: str) -> None:
        if asked == "acls":
            raise KafkaRefusal("ACLs", 31, "ClusterAuthorizationFailed", "")

    spark.before = meanwhile
    made = await rounds(spark, ROUND)
    assert stage.target.writes == ["A.orders-2: retention.ms=5"]
    assert (made.report.changes, made.report.failures, made.report.by) == (1, 2, SPARK)
    failed = {event.part: event.first for event in made.take_events() if isinstance(event, ConfigSyncFailed)}
    assert failed["configs"] == "orders: denied"
    assert "ClusterAuthorizationFailed" in failed["ACLs"]


async def test_if_the_second_look_cannot_read_a_cut_plan_the_loop_makes_the_whole_plan() -> None:
    stage = stage_of(*(f"orders-{number}" for number in range(5)))
    spark = FakeSpark(stage, most=2)
    spark.before = lambda: stage.source.failing.update({"orders-0": "denied", "orders-1": "denied"})
    made = await rounds(spark, ROUND, ROUND)
    assert (made.report.by, len(spark.rounds)) == (LOOP, 1)
    assert len(stage.target.writes) == 3, "what was beyond the bound is not left out"


async def test_rounds_whose_rest_does_not_shrink_do_not_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(*(f"orders-{number}" for number in range(5)))
    spark = FakeSpark(stage, most=2)
    monkeypatch.setattr(stage.sync, "look_again", lambda _changes: _given())
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW, acls_s=None), stage.sync, planner=spark.planner)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(spark.run())
        for _ in range(6):
            await made.tick()  # without a pause
        running.cancel()
    assert (len(spark.rounds), stage.target.writes) == (2, [])


async def test_topics_that_just_appeared_are_compared_by_the_loop() -> None:
    stage = stage_of("orders")
    spark = FakeSpark(stage)
    made = await rounds(spark, msgspec.structs.replace(ROUND, early=True))
    assert (made.report.by, spark.rounds) == (LOOP, [])
    assert "no copy" in made.report.not_spark

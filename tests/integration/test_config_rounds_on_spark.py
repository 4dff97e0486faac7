"""A round of config sync that Spark plans: equal to the plan of the loop, from the same clusters and memory."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.config.config import load_config
from engine.config.settings import MirrorConfig
from engine.flow.config_history.look import unpack_look
from engine.flow.config_sync.planning import Scope, SyncPlan
from engine.flow.config_sync.round_messages import ClusterIds, RoundPlan, RoundRequest, pack_memory, unpack_memory
from engine.jobs.runtime.core_budget import CoreBudget
from engine.services.config_service import config_sync
from policies.sync.config_sync import Known
from tests.conftest import Pair
from tests.harness.admin import create_topics, set_configs
from tests.harness.live import write_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.integration]

LOOP = Scope(shapes=False)
TOPICS = 12
KNOWN = {"plan-3": {"retention.ms": "5000"}, "plan-4": {"segment.ms": "7000000"}, "gone": {"retention.ms": "1"}}
"""What the topics had at an earlier round: two configs that the source has lost since, and a topic that is gone."""


async def prepare(pair: Pair) -> None:
    """Make topics and copies that differ in every way that a plan tells apart."""
    names = [f"plan-{number}" for number in range(TOPICS)]
    await create_topics(pair.source, dict.fromkeys(names, 2))
    copies = dict.fromkeys((f"east.{name}" for name in names[:-1]), 2)  # the last one has no copy
    await create_topics(pair.target, copies | {"east.plan-1": 1, "east.plan-2": 3})
    for number, configs in enumerate(
        (
            {"retention.ms": "1000", "cleanup.policy": "compact"},
            {"retention.ms": "2000"},
            {"min.insync.replicas": "1"},
            {},
            {"segment.ms": "8000000"},
            {"retention.ms": "9000"},
        )
    ):
        await set_configs(pair.source, names[number], configs)
    await set_configs(pair.target, "east.plan-3", {"retention.ms": "5000"})
    await set_configs(pair.target, "east.plan-4", {"segment.ms": "7000000", "retention.bytes": "1000000"})
    await set_configs(pair.target, "east.plan-5", {"retention.ms": "9000"})


async def by_loop(config: MirrorConfig, known: Known, scope: Scope = LOOP) -> tuple[SyncPlan, Known]:
    async with config_sync(config, config.flows[0], "raymirror-test") as sync:
        sync.known = known
        return await sync.compare(scope), sync.known


def by_spark(
    spark: "SparkSession", config: MirrorConfig, known: Known, target_id: str = "", *, whole: bool = False
) -> RoundPlan:
    from engine.jobs.config_sync import job

    asked = RoundRequest(
        flow=config.flows[0].name,
        configs=True,
        acls=True,
        memory=pack_memory(known),
        clusters=ClusterIds(target=target_id),
        whole=whole,
    )
    return job.run(spark, asked, config, CoreBudget(streams=False, cores=2))


@pytest.fixture(scope="module")
def config(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> MirrorConfig:
    asyncio.run(prepare(cluster_pair))
    clusters = {"east": cluster_pair.source, "west": cluster_pair.target}
    folder: Path = tmp_path_factory.mktemp("rounds")
    return load_config(write_properties(folder / "mm2.properties", clusters, {"east->west": "plan-.*"}))


@pytest.mark.parametrize("tasks", [1, 3])
def test_loop_and_spark_make_the_same_plan(
    config: MirrorConfig, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    from engine.jobs.config_sync import job

    monkeypatch.setattr(job, "TASK_TOPICS", TOPICS // tasks)
    plan, known = asyncio.run(by_loop(config, KNOWN))
    found = by_spark(spark, config, KNOWN)
    assert [type(one).__name__ for one in plan.changes].count("DropConfig") == 1, "the memory counts"
    assert len(plan.changes) > 3
    assert found.plan.changes == plan.changes
    assert (found.plan.conflicts, found.plan.topics) == (plan.conflicts, plan.topics)
    assert (found.plan.unread, found.plan.uncopied) == (plan.unread, 1)
    assert found.plan.no_authorizer == plan.no_authorizer
    assert unpack_memory(found.memory) == known
    assert (found.more, found.more_conflicts, found.more_unread) == (0, {}, 0)


def test_loop_and_spark_see_the_same_configs(
    config: MirrorConfig, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.jobs.config_sync import job

    monkeypatch.setattr(job, "TASK_TOPICS", TOPICS // 3)
    plan, _ = asyncio.run(by_loop(config, KNOWN, Scope(shapes=False, left=True)))
    found = by_spark(spark, config, KNOWN, whole=True)
    assert plan.look is not None
    assert unpack_look(found.look) == plan.look
    assert plan.look.copies.topics["plan-4"] == {"segment.ms": "7000000", "retention.bytes": "1000000"}
    assert (len(plan.look.source.topics), len(plan.look.copies.topics)) == (TOPICS, TOPICS - 1)
    assert plan.look.source.defaults["retention.ms"]
    assert found.plan.changes == plan.changes


def test_a_plan_for_another_cluster_is_refused(config: MirrorConfig, spark: "SparkSession") -> None:
    from engine.jobs.config_sync.job import RoundFailed

    with pytest.raises(Exception, match="is connected to cluster some-other") as refused:
        by_spark(spark, config, {}, "some-other")
    assert isinstance(refused.value, RoundFailed)


@pytest.mark.parametrize(("side", "why"), [("sources", "the source is away"), ("copies", "described no copy of plan-")])
def test_rows_that_spark_computes_again_while_a_cluster_is_away_fail_the_round(
    config: MirrorConfig, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str, why: str
) -> None:
    from engine.jobs.config_sync import describe, job

    gone = {one: str(tmp_path / one) for one in ("sources", "copies")}
    looked = list[bool]()
    refuse = job._refuse

    def sources(reach: describe.TaskInput, rows: Iterable[describe.TopicRow]) -> Iterator[describe.SourceRow]:
        if os.path.exists(gone["sources"]):
            return iter([describe.SourceRow("", "", 0, 0, b"", b"", "the source is away")])
        return describe.describe_sources(reach, rows)

    def copies(reach: describe.TaskInput, rows: Iterable[describe.SourceRow]) -> Iterator[describe.CopyRow]:
        if os.path.exists(gone["copies"]):
            return iter([describe.CopyRow("", 0, 0, b"", "the target is away")])
        return describe.describe_copies(reach, rows)

    def refuse_then_lose(failures: "DataFrame") -> None:
        refuse(failures)
        looked.append(True)
        if len(looked) == 2:  # both sides were described; now their rows are lost
            spark.catalog.clearCache()
            Path(gone[side]).touch()

    monkeypatch.setattr(job, "describe_sources", sources)
    monkeypatch.setattr(job, "describe_copies", copies)
    monkeypatch.setattr(job, "_refuse", refuse_then_lose)
    with pytest.raises(Exception, match=why) as failed:
        by_spark(spark, config, KNOWN)
    assert isinstance(failed.value, job.RoundFailed)

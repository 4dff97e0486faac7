"""Limits of bandwidth and classes of priority between real brokers: what is held back, why, and until when."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s
from policies.traffic import TrafficRules, parse_bandwidth, parse_priorities
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, Run
from tests.harness.shell import Shell, copied, write_config

pytestmark = pytest.mark.integration

KIB = 1024


def limit(run: Run, bandwidth: list[str], priorities: list[str] | None = None) -> None:
    run.copier.limit(TrafficRules(parse_bandwidth(bandwidth), parse_priorities(priorities or [])))


async def test_a_limit_holds_until_it_is_lifted(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    mirror = Mirror(source_cluster, target_cluster, "bw")
    await mirror.open()
    await mirror.topic("slow", 2)
    await mirror.topic("free", 1)
    rate = 200 * KIB
    for partition in range(2):
        await produce(source_cluster, "slow", partition, numbered(4000, size_bytes=KIB))
    await produce(source_cluster, "free", 0, numbered(4000, size_bytes=KIB))
    async with mirror.run() as run:
        began_s = now_s()
        limit(run, [f"slow@{rate}"])
        await run.until_copied("free")
        await run.until(lambda: run.lane("slow").held or run.lane("slow", 1).held, "it says that it is held back")
        await run.until(lambda: sum(run.lane("slow", n).records for n in range(2)) > 1000, "it moves")
        got = sum(run.lane("slow", n).wire_bytes + run.lane("slow", n).queued_bytes for n in range(2))
        assert got <= rate * (now_s() - began_s + 1) + 512 * KIB, "the rate, a second's burst and an answer"
        assert run.progress().bandwidth.popitem()[1].held
        assert sum(run.lane("slow", n).records for n in range(2)) < 8000, "the test is over before the limit is lifted"
        limit(run, [])
        await run.until_copied()
        assert run.lane("slow").held == ""
    for topic in ("slow", "free"):
        await assert_identical(source_cluster, target_cluster, topic, mirror.copied(topic))


async def test_a_hot_backlog_comes_before_a_cold_one_and_the_cold_one_moves(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    mirror = Mirror(source_cluster, target_cluster, "prio", buffer_budget_bytes=8 * 1024 * KIB)
    await mirror.open()
    await mirror.topic("cold", 4)
    await mirror.topic("hot", 1)
    for partition in range(4):
        await produce(source_cluster, "cold", partition, numbered(2500, size_bytes=12 * KIB))
    await produce(source_cluster, "hot", 0, numbered(1600, size_bytes=12 * KIB))
    async with mirror.run() as run:
        limit(run, ["hot@4000000"], ["hot@high"])  # slow enough to be watched
        await run.until(lambda: any("raymirror.priority" in run.lane("cold", n).held for n in range(4)), "cold waits")
        await run.until_copied("hot")
        cold = sum(run.lane("cold", n).records for n in range(4))
        assert 0 < cold < 10_000, "the cold topic has had its part, and no more"
        limit(run, [], ["cold@high"])
        await asyncio.gather(
            produce(source_cluster, "hot", 0, numbered(100, first=1600, size_bytes=KIB)),
            run.until_copied("cold"),
        )
        await run.until_copied()
    for topic in ("hot", "cold"):
        await assert_identical(source_cluster, target_cluster, topic, mirror.copied(topic))


@pytest.mark.ray
def test_a_reload_lifts_a_limit_and_replaces_no_copier(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    topic, records = "limited", 6000
    asyncio.run(create_topics(source_cluster, {topic: 2}))
    asyncio.run(produce(source_cluster, topic, 0, numbered(records, size_bytes=KIB)))
    more = {"raymirror.bandwidth.bytes": f"10000000, {topic}@{100 * KIB}", "raymirror.copiers": "2"}
    config = write_config(tmp_path, source_cluster, target_cluster, topic, more)
    shell = Shell(tmp_path)
    try:
        assert shell("run", str(config), "--name", "limited", "--detach").returncode == 0
        why = f"raymirror.bandwidth.bytes: topics {topic} may have"
        slow = shell.until(lambda status: why in status["flows"][0]["held_reason"] + status["flows"][0]["stall_reason"])
        assert slow["flows"][0]["records"] < records
        before = {copier["copier_id"] for copier in slow["copiers"]}
        assert "raymirror.bandwidth.bytes" in shell("lag").stdout.replace("\n", "")

        config.write_text(config.read_text().replace("raymirror.bandwidth.bytes = ", "# "))
        reloaded = shell("reload", str(config))
        assert reloaded.returncode == 0, reloaded.stderr
        assert "its copiers stay" in " ".join(reloaded.stdout.split())
        done = shell.until(copied(records))
        assert {copier["copier_id"] for copier in done["copiers"]} == before
        assert done["flows"][0]["held"] == 0
    finally:
        assert shell("stop").returncode == 0

"""`raymirror dr switchover` on a real mirror, typed as the runbook has it."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.eventually import until_equal
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RECORDS, MORE = 200, 30
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"


async def keys(cluster: EmbeddedCluster, topic: str) -> dict[int, list[bytes | None]]:
    return {number: [one.key for one in rows] for number, rows in (await read_topic(cluster, topic)).items()}


async def test_copies_that_keep_their_names(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = Operator(tmp_path, "typed", source_cluster, target_cluster, {"replication.policy.class": IDENTITY})
    reversed_file = tmp_path / "reversed.properties"
    await create_topics(source_cluster, {one.topic: 2})
    for partition in range(2):
        await produce(source_cluster, one.topic, partition, numbered(RECORDS))
    await stock.commit(source_cluster, "typed-g", one.topic, {0: 50, 1: RECORDS})
    try:
        await one.runs(one.config, 2 * RECORDS)
        code, told = await one.types(
            "switchover", "--dry-run", "--fence", "none", "--reverse-config", str(reversed_file)
        )
        assert (code, told["reasons"]) == (0, [])
        code, told = await one.types("abort")
        assert (code, "no-operation-runs" in told) == (2, True)
        code, done = await one.types("switchover", "--fence", "none", "--yes")
        assert (code, done["state"]) == (0, "finished")
        assert all(step["state"] == "done" for step in done["steps"])
        (reverse,) = (step for step in done["steps"] if step["name"] == "reverse")
        assert reverse["facts"]["reverse_runs"] is False
        await one.ends()
        code, status = await one.types("status")
        assert (code, status["operation"]["id"]) == (0, done["id"])
        code, history = await one.types("history")
        assert (code, len(history["operations"])) == (0, 1)
        refused = await asyncio.to_thread(one.shell, "run", str(one.config))
        assert refused.returncode != 0
        assert f"{one.flow} stopped" in refused.stdout
        await produce(target_cluster, one.topic, 0, numbered(MORE, first=1_000_000))
        wanted = await keys(target_cluster, one.topic)
        await one.runs(reversed_file, MORE)
        await until_equal(lambda: keys(source_cluster, one.topic), wanted)
        (record,) = await stock.read_from(target_cluster, "typed-g", one.topic, 1)
        assert record.key == numbered(1, first=50)[0].key
    finally:
        one.close()


async def test_copies_with_a_prefix_and_a_flow_back_in_the_same_mirror(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = Operator(
        tmp_path,
        "both",
        source_cluster,
        target_cluster,
        {
            "replication.policy.class": DEFAULT,
            "there->both.enabled": "true",
            "there->both.topics": "both-t",
        },
    )
    await create_topics(source_cluster, {one.topic: 1})
    await create_topics(target_cluster, {one.topic: 1})
    await produce(source_cluster, one.topic, 0, numbered(RECORDS))
    try:
        await one.runs(one.config, RECORDS)
        code, done = await one.types("switchover", "--fence", "none", "--yes")
        assert (code, done["state"]) == (0, "finished")
        (reverse,) = (step for step in done["steps"] if step["name"] == "reverse")
        assert reverse["facts"]["reverse_runs"] is True
        await produce(target_cluster, one.topic, 0, numbered(MORE, first=1_000_000))
        wanted = await keys(target_cluster, one.topic)
        await until_equal(lambda: keys(source_cluster, f"there.{one.topic}"), wanted)
        assert len((await keys(target_cluster, f"both.{one.topic}"))[0]) == RECORDS
    finally:
        one.close()

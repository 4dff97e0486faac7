"""A node with its copier frozen past the lease: its sets continue elsewhere, and a thawed copier writes nothing.

It thaws in two steps, as after a network cut that heals: first the copier, which finds its lease expired and its place
taken, then the raylet, which learns that its node was given up.
"""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.growing import GrowingMirror, actors_on
from tests.harness.ray_cluster import ray_cluster

pytestmark = [pytest.mark.fault, pytest.mark.full, pytest.mark.ray]

PARTITIONS = 40


async def test_a_node_frozen_past_the_lease_loses_its_sets_and_writes_nothing_after(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path, figures: dict[str, Any]
) -> None:
    with ray_cluster(tmp_path / "ray", nodes=(1, 1, 1)) as ray:  # a copier each, and one to spare
        mirror = GrowingMirror(*pair, ray, tmp_path, alias="icy", partitions=PARTITIONS)
        await create_topics(mirror.source, {mirror.topic: PARTITIONS})
        mirror.submit(copiers=2)
        try:
            async with mirror.growing():
                await mirror.until(lambda: mirror.is_shared_by(2), "two copiers share the partitions")
                await mirror.until_grown()
                before, owners = await mirror.epochs(), mirror.owners()
                node = next(one for one in ray.nodes[1:] if actors_on(one, "CopierActor"))
                victims = actors_on(node, "CopierActor")
                ray.freeze_node(node)
                await mirror.until(
                    lambda: mirror.is_shared_by(2) and mirror.owners().keys() != owners.keys(), "it is replaced"
                )
                (gone,) = owners.keys() - mirror.owners().keys()
                moved = await mirror.partitions_of(owners[gone])
                assert all(one.status() == psutil.STATUS_STOPPED for one in victims), "frozen until now"
                for one in victims:
                    one.resume()
                await mirror.until_grown(25)
                ray.thaw_node(node)
                await mirror.until_grown(25)
                await asyncio.to_thread(psutil.wait_procs, victims, timeout=120)
            after = await mirror.epochs()
            assert moved
            assert all(after[number] > before[number] for number in moved)
            assert not any(one.is_running() for one in victims), "what was replaced has ended"
            figures["node frozen past the lease"] = {
                "partitions moved": len(moved),
                "records": mirror.sent,
                "told": mirror.live.told(gone),
            }
            mirror.live.end()
        finally:
            mirror.close()

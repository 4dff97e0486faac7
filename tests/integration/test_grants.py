"""A mirror with exactly the rights that `raymirror check --grants` lists, on both clusters, with a read-only source."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from deploy.local.cluster import running_clusters
from engine.checks.grants import needed_grants
from engine.config.config import load_config
from policies.grants.planning import Grant, GrantNeed
from policies.sync.acl_sync import Operation
from tests.harness import groups as stock
from tests.harness.admin import create_topics, own_configs, set_configs
from tests.harness.grants import AUTHORIZER_LOG, GrantDesk, denied, grant_desk
from tests.harness.group_mirror import GroupMirror
from tests.harness.load import numbered, produce
from tests.harness.ray_cluster import RayCluster
from tests.harness.secured import PASSWORD, SecuredCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

FLOW, TOPIC, COPIED, GROUP = "left->right", "orders", "left.orders", "readers"
EACH = 50
SETTINGS = {
    "groups": GROUP,
    "sync.group.offsets.enabled": "true",
    "emit.heartbeats.enabled": "true",
    "right->left.emit.heartbeats.enabled": "false",
    "offset-syncs.topic.location": "target",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "offset.flush.interval.ms": "1000",
}
"""Everything that a mirror does without Spark; nothing is written on the source."""


class Pair:
    """Two secured clusters, and who changes the mirror's rights there."""

    def __init__(self, left: SecuredCluster, right: SecuredCluster, desks: dict[str, GrantDesk]) -> None:
        self.clusters = {"left": left.cluster, "right": right.cluster}
        self.logins = left.settings("left") | right.settings("right")
        self.desks = desks

    def mirror(self, topics: str, ray: RayCluster, folder: Path, more: dict[str, str] | None = None) -> GroupMirror:
        """Make the mirror of the flow; it is not started."""
        settings = {**SETTINGS, **self.logins, **(more or {})}
        return GroupMirror(self.clusters, {FLOW: topics}, settings, ray, folder)

    async def give(self, grants: list[Grant]) -> None:
        """Give rights, each on its cluster."""
        for alias, desk in self.desks.items():
            await desk.give([one for one in grants if one.cluster == alias])


@contextmanager
def two_secured(folder: Path) -> Iterator[tuple[SecuredCluster, SecuredCluster]]:
    """Start two clusters on which the mirror may do nothing yet, and whose brokers log what they deny."""
    left, right = (SecuredCluster(name, folder / name, AUTHORIZER_LOG) for name in ("left", "right"))
    with running_clusters(left.cluster, right.cluster):
        yield left, right


@asynccontextmanager
async def secured_pair(folder: Path) -> AsyncIterator[Pair]:
    """Start the clusters and connect to them."""
    with two_secured(folder) as (left, right):
        async with grant_desk(left.cluster) as here, grant_desk(right.cluster) as there:
            yield Pair(left, right, {"left": here, "right": there})


def running_grants(config: Path) -> list[Grant]:
    """Return what a running mirror may have: all but what only commands need."""
    return [one for one in needed_grants(load_config(config)) if one.need is not GrantNeed.COMMAND]


async def test_a_mirror_with_exactly_these_grants_is_denied_nothing(shared_ray: RayCluster, tmp_path: Path) -> None:
    async with secured_pair(tmp_path) as pair:
        left, right = pair.clusters["left"], pair.clusters["right"]
        await create_topics(left, {TOPIC: 2})
        for partition in range(2):
            await produce(left, TOPIC, partition, numbered(EACH, first=100 * partition))
        mirror = pair.mirror(f"{TOPIC}, clicks.*", shared_ray, tmp_path)
        grants = running_grants(tmp_path / "mm2.properties")
        assert {one.operation for one in grants if one.cluster == "left"} == {
            Operation.READ,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
        }
        await pair.give(grants)
        try:
            mirror.start()
            await mirror.until_copied(FLOW, TOPIC, COPIED, 2 * EACH)
            await stock.commit(left, GROUP, TOPIC, {0: 7, 1: EACH})
            await mirror.until_equal(FLOW, GROUP, TOPIC, COPIED)
            await set_configs(left, TOPIC, {"retention.ms": "123456789"})
            await create_topics(left, {"clicks-new": 1})
            await produce(left, "clicks-new", 0, numbered(EACH))
            await mirror.until_copied(FLOW, "clicks-new", "left.clicks-new", EACH)

            async def is_synced() -> bool:
                return (await own_configs(right, [COPIED]))[COPIED].get("retention.ms") == "123456789"

            await mirror.until(is_synced, "the copy has the topic's retention")
            mirror.end()
        finally:
            mirror.close()
        assert denied([left, right]) == []
        assert mirror.live is not None
        assert PASSWORD not in mirror.live.said() + mirror.live.describe()

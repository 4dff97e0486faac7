"""MM2's integration tests again on a target behind TLS, a password and ACLs: records, checkpoints, commits."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.group_mirror import GroupMirror
from tests.harness.load import numbered, produce
from tests.harness.places import read_places
from tests.harness.ray_cluster import RayCluster
from tests.harness.secured import PASSWORD, secured_cluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC, COPIED, GROUP = "guarded-orders", "open.guarded-orders", "guarded-readers"
EACH = 50
_TOPICS = ("--topic", "open.", "--topic", "mm2-", "--topic", "raymirror-")
_OTHERS = ("--transactional-id", "raymirror.", "--group", "guarded-")
RIGHTS = (
    ("--operation", "All", *_TOPICS, *_OTHERS, "--resource-pattern-type", "prefixed"),
    ("--operation", "Create", "--operation", "Describe", "--operation", "DescribeConfigs", "--cluster"),
)
"""Nothing else is given: what a mirror needs on its target."""


async def test_a_target_behind_tls_a_password_and_rights(
    source_cluster: EmbeddedCluster, shared_ray: RayCluster, tmp_path: Path
) -> None:
    await create_topics(source_cluster, {TOPIC: 2})
    for partition in range(2):
        await produce(source_cluster, TOPIC, partition, numbered(EACH, first=100 * partition))
    with secured_cluster("locked", tmp_path / "locked") as locked:
        for words in RIGHTS:
            locked.allow(*words)
        settings = {"groups": GROUP, "sync.group.offsets.enabled": "true", **locked.settings("locked")}
        clusters = {"open": source_cluster, "locked": locked.cluster}
        mirror = GroupMirror(clusters, {"open->locked": TOPIC}, settings, shared_ray, tmp_path)
        try:
            mirror.start()
            await mirror.until_copied("open->locked", TOPIC, COPIED, 2 * EACH)
            await stock.commit(source_cluster, GROUP, TOPIC, {0: 7, 1: EACH})
            await mirror.until_equal("open->locked", GROUP, TOPIC, COPIED)
            await mirror.assert_exact("open->locked", GROUP, TOPIC, COPIED)
            mirror.end()
            sent, found = await read_places(source_cluster, TOPIC), await read_places(locked.cluster, COPIED)
            assert [[place.record for place in found[n]] for n in range(2)] == [
                [place.record for place in sent[n]] for n in range(2)
            ]
        finally:
            mirror.close()
        assert mirror.live is not None
        assert PASSWORD not in mirror.live.said() + mirror.live.describe()

"""The longer delete.retention.ms of a failover: it stays on the copies, and is taken back exactly."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_each, own_configs
from tests.harness.eventually import until_equal
from tests.harness.flow_file import IDENTITY, QUIET, flow_settings, write_settings
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

KEPT_MS = str(30 * 86_400_000)
COMPACTED = {"cleanup.policy": "compact"}
Configs = dict[str, dict[str, str]]


async def test_what_a_failover_lends_is_mirrored_nowhere_and_ends_when_the_flow_is_copied_again(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = Operator(tmp_path, "lent", source_cluster, target_cluster, IDENTITY)
    with_own, without = f"{one.topic}-own", f"{one.topic}-none"
    configs = {with_own: COMPACTED | {"delete.retention.ms": "60000"}, without: COMPACTED}
    await create_each(source_cluster, configs)
    for topic in configs:
        await produce(source_cluster, topic, 0, numbered(20))

    async def on(cluster: EmbeddedCluster, prefix: str = "") -> Configs:
        found = await own_configs(cluster, [f"{prefix}{topic}" for topic in configs])
        return {topic.removeprefix(prefix): own for topic, own in found.items()}

    await one.copies(one.config, one.flow, 40)
    await until_equal(lambda: on(target_cluster), configs)
    done = await one.fails_over()
    assert done.returncode == 0, done.stderr
    raised = {topic: own | {"delete.retention.ms": KEPT_MS} for topic, own in configs.items()}
    assert await on(target_cluster) == raised
    await applied(one, one.turned())
    assert await on(source_cluster) == configs
    for topic in configs:
        await create_each(source_cluster, {f"there.{topic}": configs[topic]})
    await applied(one, to_a_third_cluster(one))
    assert await on(source_cluster, "there.") == configs
    assert await on(target_cluster) == raised
    for topic in configs:
        await produce(source_cluster, topic, 0, numbered(5, first=20))
    try:
        one.shell.start("run", str(one.config), "--forget-failover", one.flow)
        await one.has_copied(10)
        await until_equal(lambda: on(target_cluster), configs)
        await one.stops()
    finally:
        one.close()


async def applied(one: Operator, path: Path) -> None:
    """Bring the configs of a file's flow in step, once."""
    done = await one.gives("apply", str(path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def to_a_third_cluster(one: Operator) -> Path:
    """Write the file of a flow from the target to another cluster, which is the source under another name."""
    more = {**QUIET, "sync.topic.acls.enabled": "false", "there->third.topics": f"{one.topic}.*"}
    settings = flow_settings("there", one.target, one.source, more, to="third")
    return write_settings(one.config.with_name("third.properties"), settings)

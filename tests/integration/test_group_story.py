"""Groups of a mirror on Ray: run by its metadata actor, shown in `status`; an application moves while it copies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.shell import DEADLINE_S, Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC = GROUP = "commuter"
PARTITIONS, RECORDS = 2, 400
KEYS = (
    "groups = commuter",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "refresh.groups.interval.seconds = 1",
)


class Story:
    """A running mirror of one topic."""

    def __init__(self, shell: Shell, config: Path) -> None:
        self.shell, self.config = shell, config


@pytest.fixture(scope="module")
def story(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("groups")
    shell = Shell(folder)
    asyncio.run(create_topics(source_cluster, {TOPIC: PARTITIONS}))
    config = write_config(folder, source_cluster, target_cluster, TOPIC)
    config.write_text(config.read_text() + "\n".join([*KEYS, ""]))
    process = shell.start("run", str(config))
    try:
        yield Story(shell, config)
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def test_an_application_moves_while_the_mirror_copies(
    story: Story, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    async def first() -> list[Any]:
        for partition in range(PARTITIONS):
            await produce(source_cluster, TOPIC, partition, numbered(RECORDS, first=RECORDS * partition))
        return await stock.read_from(source_cluster, GROUP, TOPIC, RECORDS)

    before = asyncio.run(first())

    def mirrored(status: dict[str, Any]) -> bool:
        groups = status["flows"][0]["groups"]
        return bool(groups and groups["groups"] == 1 and groups["commits"])

    story.shell.until(mirrored)
    words = ("translate", GROUP, str(story.config), "--hold-until-equal", "--timeout", "120")
    done = story.shell(*words)
    assert done.returncode == 0, done.stderr
    left = PARTITIONS * RECORDS - len(before)
    after = asyncio.run(stock.read_from(target_cluster, GROUP, f"source.{TOPIC}", left))
    values = sorted(one.value.strip() for one in [*before, *after])
    assert values == sorted(b"v%d" % number for number in range(PARTITIONS * RECORDS))
    shown = story.shell("status")
    assert "groups: 1 mirrored" in shown.stdout, shown.stdout

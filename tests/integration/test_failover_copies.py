"""A failover without a mirror while the source answers: a partition is drained only if its copy has the records."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics, delete_topic
from tests.harness.flow_file import QUIET
from tests.harness.load import numbered, produce
from tests.harness.rayless import Rayless
from tests.harness.typed import typed

pytestmark = [pytest.mark.integration]

RECORDS = 50


async def test_a_copy_that_is_gone_is_not_drained(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = Rayless(tmp_path, "copies", source_cluster, target_cluster, QUIET)
    await create_topics(source_cluster, {"copies-t": 1, "copies-t-kept": 1})
    for topic in ("copies-t", "copies-t-kept"):
        await produce(source_cluster, topic, 0, numbered(RECORDS))
    async with world.run():
        await world.until(lambda lanes: sum(lane.records for lane in lanes) == 2 * RECORDS, "all is copied")

    async def fail_over() -> tuple[int, dict[str, tuple[bool, str]]]:
        code, told, _ = await typed(capsys, "failover", world.flow, "--config", str(world.path))
        return code, {row["topic"]: (row["drained"], row["why"]) for row in told["partitions"]}

    assert await fail_over() == (0, {"copies-t": (True, ""), "copies-t-kept": (True, "")})
    await delete_topic(target_cluster, "copies.copies-t")
    code, found = await fail_over()
    assert (code, found["copies-t-kept"]) == (4, (True, ""))
    assert found["copies-t"] == (False, "its copy copies.copies-t-0 does not exist any more")

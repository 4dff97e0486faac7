"""Two failbacks of one flow with a switchover between, and a topic that never had a record."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.flow_file import IDENTITY
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]


async def test_a_second_round_is_as_good_as_the_first_one(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = Operator(tmp_path, "rounds", source_cluster, target_cluster, IDENTITY)
    await create_topics(source_cluster, {one.topic: 1, f"{one.topic}-kv": 1})
    await produce(source_cluster, one.topic, 0, numbered(40))
    try:
        await round_trip(one, first=100)
        await goes_back(one, first=200)
        await round_trip(one, first=300)
    finally:
        one.close()
    assert await one.values(source_cluster) == await one.values(target_cluster)
    assert len(await one.values(source_cluster)) == 40 + 4 * 10


async def round_trip(one: Operator, *, first: int) -> None:
    """Copy, fail over, write to the target, and fail back."""
    records = 40 if first == 100 else 10
    await one.runs(one.config, records)
    done = await one.fails_over()
    assert done.returncode == 0, done.stderr
    await one.ends()
    await produce(one.target, one.topic, 0, numbered(10, first=first))
    code, told = await one.types("failback", "--fenced-by-hand", "--yes")
    assert (code, told["operation"]["state"] if code == 0 else told) == (0, "finished")


async def goes_back(one: Operator, *, first: int) -> None:
    """Run the flow back, and switch over to the first cluster, where applications write again."""
    back = one.turned()
    await produce(one.target, one.topic, 0, numbered(10, first=first))
    await one.runs(back, 10)
    words = ("dr", "switchover", one.back, "--config", str(back), "--fence", "none", "--yes", "--json")
    done = await one.gives(*words)
    assert done.returncode == 0, done.stderr
    await one.ends()
    await produce(one.source, one.topic, 0, numbered(10, first=first + 50))

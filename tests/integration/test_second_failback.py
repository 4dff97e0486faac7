"""Two failbacks of one flow with a switchover between, and a topic that never had a record."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.flow_file import IDENTITY
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator

pytestmark = [pytest.mark.integration, pytest.mark.full]


async def test_a_second_round_is_as_good_as_the_first_one(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = Operator(tmp_path, "rounds", source_cluster, target_cluster, IDENTITY)
    await create_topics(source_cluster, {one.topic: 1, f"{one.topic}-kv": 1})
    await produce(source_cluster, one.topic, 0, numbered(40))
    await round_trip(one, first=100)
    await goes_back(one, first=200)
    await round_trip(one, first=300)
    assert await one.values(source_cluster) == await one.values(target_cluster)
    assert len(await one.values(source_cluster)) == 40 + 4 * 10


async def round_trip(one: Operator, *, first: int) -> None:
    """Copy, fail over, write to the target, and fail back."""
    records = 40 if first == 100 else 10
    await one.copies(one.config, one.flow, records)
    done = await one.fails_over()
    assert done.returncode == 0, done.stderr
    await produce(one.target, one.topic, 0, numbered(10, first=first))
    code, told = await one.types("failback", "--fenced-by-hand", "--yes")
    assert (code, told["operation"]["state"] if code == 0 else told) == (0, "finished")


async def goes_back(one: Operator, *, first: int) -> None:
    """Copy the flow back, and switch over to the first cluster, where applications write again."""
    back = one.turned()
    await produce(one.target, one.topic, 0, numbered(10, first=first))
    await one.copies(back, one.back, 10)
    words = ("--config", str(back), "--fence", "none", "--ignore", "no-mirror", "--yes", "--json")
    done = await one.gives("dr", "switchover", one.back, *words)
    assert done.returncode == 0, done.stderr
    await produce(one.source, one.topic, 0, numbered(10, first=first + 50))

"""Real brokers of older releases as source and as target, and a rolling upgrade under load: 0 lost, 0 doubled."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from actors.cli.main import main
from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import LaneRefused, OwnershipLost, SourceGap, UnfencedOwnership
from engine.kafka.admin.settings import KafkaSettings
from tests.conftest import Pair
from tests.harness import groups as stock
from tests.harness.admin import own_configs
from tests.harness.compare import assert_identical, read_topic
from tests.harness.keeping import POLLED, Sides, keeping, until_moved
from tests.harness.live import write_properties
from tests.harness.load import append, numbered, produce, producer
from tests.harness.mirror import Mirror, Run, cluster_client
from tests.harness.releases import older_cluster
from tests.harness.replicas import until_in_sync

pytestmark = [pytest.mark.integration, pytest.mark.full]

RELEASES = ("2.8", "3.3", "3.9")
LACKING = {
    "2.8": {"end of a barrier", "stable offsets of groups", "free disk"},
    "3.3": set[str](),
    "3.9": set[str](),
}
"""What the brokers of a release lack, by the names of the table."""
PARTITIONS = 2


class Old(NamedTuple):
    """A cluster of another release."""

    release: str
    cluster: EmbeddedCluster


@pytest.fixture(scope="module", params=RELEASES)
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    """One broker of each release in turn."""
    release: str = request.param
    cluster = older_cluster(release, f"old-{release}", tmp_path_factory.mktemp("old") / release)
    with cluster:
        yield Old(release, cluster)


@pytest.fixture(params=["source", "target"])
def sides(request: pytest.FixtureRequest, old: Old, cluster_pair: Pair) -> Pair:
    """The old cluster as source or as target; the other side is of today's release."""
    if request.param == "source":
        return Pair(old.cluster, cluster_pair.target)
    return Pair(cluster_pair.source, old.cluster)


def alias_of(old: Old, sides: Pair, what: str) -> str:
    role = "from" if sides.source is old.cluster else "to"
    return f"{what}-{role}-{old.release.replace('.', '-')}"


async def fill(mirror: Mirror, topic: str, first: int) -> None:
    for partition in range(PARTITIONS):
        await produce(mirror.source, topic, partition, numbered(300, first=first, size_bytes=200))


def assert_calm(run: Run) -> None:
    """Nothing was given up, and nothing was doubted."""
    for kind in (SourceGap, LaneRefused, OwnershipLost, UnfencedOwnership):
        assert not run.told(kind)


@pytest.mark.parametrize("commit_s", [0.0, 0.1], ids=["idempotent", "exactly once"])
@pytest.mark.parametrize("drain", [True, False], ids=["drained", "cut off"])
async def test_copies_are_whole(old: Old, sides: Pair, drain: bool, commit_s: float) -> None:
    alias = f"{alias_of(old, sides, 'copies')}-{drain}-{int(10 * commit_s)}".lower()
    mirror = Mirror(*sides, alias, commit_s=commit_s)
    await mirror.open()
    copied = await mirror.topic(alias, PARTITIONS)
    await fill(mirror, alias, 0)
    async with mirror.run(drain=drain) as run:
        await run.until_copied()
        assert_calm(run)
    await fill(mirror, alias, 300)
    async with mirror.run() as run:
        await run.until_copied()
        assert_calm(run)
    # A transaction of a copier that was cut off is rolled back: readers of committed records do not see it.
    expected = await read_topic(sides.source, alias)
    assert await read_topic(sides.target, copied, committed=commit_s > 0) == expected
    assert sum(map(len, expected.values())) == PARTITIONS * 600


async def test_a_restarted_source_goes_on_at_another_leader_epoch(old: Old, cluster_pair: Pair) -> None:
    mirror = Mirror(old.cluster, cluster_pair.target, f"epochs-of-{old.release.replace('.', '-')}")
    topic = mirror.flow.source
    await mirror.open()
    copied = await mirror.topic(topic, PARTITIONS)
    await fill(mirror, topic, 0)
    async with mirror.run() as run:
        await run.until_copied()
        (broker,) = old.cluster.brokers
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(old.cluster.restart, broker)
        await fill(mirror, topic, 300)
        await run.until_copied()
        assert_calm(run)
    assert await assert_identical(old.cluster, cluster_pair.target, topic, copied) == PARTITIONS * 600


async def test_groups_are_mirrored(old: Old, sides: Pair) -> None:
    mirror = Mirror(*sides, alias_of(old, sides, "groups"))
    topic = group = mirror.flow.source
    await mirror.open()
    await mirror.topic(topic, PARTITIONS)
    await fill(mirror, topic, 0)
    async with mirror.run() as run, keeping(mirror, POLLED) as keeper, Sides(mirror) as both:
        await run.until_copied()
        await stock.commit(mirror.source, group, topic, {0: 37, 1: 300})
        assert (await until_moved(both, group)) == {0: 37, 1: 300}
        assert keeper.report.failing == 0


async def test_configs_of_copies_are_changed_one_by_one(old: Old) -> None:
    """With IncrementalAlterConfigs, which all of these releases have."""
    mirror = Mirror(old.cluster, old.cluster, "configs")
    await mirror.topic_on_source("configured", 1)
    client = cluster_client("b", old.cluster.bootstrap_servers)
    await client.open()
    port = KafkaSettings(client)
    assert await port.alter({"configured": {"retention.ms": "1000", "segment.ms": "2000"}}) == {}
    assert await port.alter({"configured": {"retention.ms": None}}) == {}
    await client.close()
    assert await own_configs(old.cluster, ["configured"]) == {"configured": {"segment.ms": "2000"}}


async def test_check_says_what_the_release_lacks(
    old: Old, sides: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = Mirror(*sides, alias_of(old, sides, "checked"))
    await mirror.topic_on_source(mirror.flow.source, 1)
    clusters = {"one": sides.source, "two": sides.target}
    config = write_properties(tmp_path / "mm2.properties", clusters, {"one->two": mirror.flow.source})
    assert await asyncio.to_thread(main, ["check", str(config), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    lacking = {one["cluster"]: {row["name"] for row in one["abilities"] if not row["has"]} for one in found["clusters"]}
    role = "one" if sides.source is old.cluster else "two"
    needed = {row["name"] for one in found["clusters"] if one["cluster"] == role for row in one["abilities"]}
    assert lacking.pop(role) == LACKING[old.release] & needed
    assert list(lacking.values()) == [set()]


# --- a rolling upgrade ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def writing(mirror: Mirror, topic: str) -> AsyncIterator[list[int]]:
    """Append to all partitions, again and again; yields how many records of each partition were acknowledged."""
    sent, over = [0], asyncio.Event()

    async def write() -> None:
        options = {"acks": "all", "enable_idempotence": True, "request_timeout_ms": 120_000}
        async with producer(mirror.source, **options) as client:
            while not over.is_set():
                for partition in range(PARTITIONS):
                    await append(client, topic, partition, numbered(50, first=sent[0], size_bytes=200))
                sent[0] += 50

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        try:
            yield sent
        finally:
            over.set()


async def newest_produce(cluster: EmbeddedCluster) -> set[int]:
    """Return the newest versions of Produce that the brokers offer: 11 in 3.9, 13 in 4.3."""
    client = cluster_client("b", cluster.bootstrap_servers)
    await client.open()
    found = {(await client.control(node)).versions[0][1] for node in client.nodes}
    await client.close()
    return found


@pytest.mark.parametrize("upgraded", ["source", "target"])
async def test_a_rolling_upgrade_under_load(cluster_pair: Pair, tmp_path: Path, upgraded: str) -> None:
    """Three brokers go from 3.9 to 4.3 one by one, while records are written and copied."""
    rolling = older_cluster("3.9", "rolling", tmp_path / "rolling", brokers=3)
    with rolling:
        sides = Pair(rolling, cluster_pair.target) if upgraded == "source" else Pair(cluster_pair.source, rolling)
        mirror = Mirror(*sides, f"rolling-{upgraded}")
        topic = mirror.flow.source
        await mirror.open()
        copied = await mirror.topic(topic, PARTITIONS)
        watched = topic if upgraded == "source" else copied
        before_and_after = [await newest_produce(rolling)]
        async with mirror.run() as run:
            async with writing(mirror, topic) as sent:
                for broker in rolling.brokers:
                    before = sent[0]
                    await asyncio.to_thread(broker.stop)
                    broker.classpath = ""  # the release that deploy/local lists
                    await asyncio.to_thread(rolling.restart, broker)
                    await until_in_sync(rolling, watched, 1, 2, 3)
                    await run.until(lambda before=before: sent[0] > before, "writes go on", 300.0)  # type: ignore[misc]
            await run.until_copied(deadline_s=300.0)
            assert not run.told(SourceGap)
            assert not run.told(LaneRefused)
        before_and_after.append(await newest_produce(rolling))
        assert before_and_after == [{11}, {13}], "all brokers are of the newer release"
        assert sent[0] > 0
        assert await assert_identical(*sides, topic, copied) == PARTITIONS * sent[0]

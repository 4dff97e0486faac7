"""Group commits that raymirror reads as they are made, on real brokers, and not in a round over all groups."""

import asyncio

import pytest
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster
from engine.checks.preflight import preview
from engine.core.mm2.commit_records import TOPIC
from engine.flow.topic_logs import commit_reader
from engine.services.group_service import GroupService
from policies.model import TopicPartition
from tests.harness import groups as stock
from tests.harness.keeping import Sides, config_of, keeping, until
from tests.harness.load import numbered, produce, producer
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

SELDOM = (
    "sync.group.offsets.interval.seconds = 900",
    "emit.checkpoints.interval.seconds = 900",
    "refresh.groups.interval.seconds = 900",
)
"""No round finds anything within a test: what is found was read."""
LONG_MS = 600_000
"""The broker aborts no transaction of a test, however slow the machine is."""
_ACLS = "org.apache.kafka.tools.AclCommand"
_DENIED = ("--deny-principal", "User:ANONYMOUS", "--operation", "Read", "--topic", TOPIC)


async def reading(keeper: GroupService) -> None:
    """Wait until the keeper reads commits and has made its first round."""
    await until(lambda: keeper.report.on_commit, lambda: keeper.report)


async def until_told(keeper: GroupService, sides: Sides, wanted: dict[tuple[str, int], int]) -> None:
    """Wait until the last checkpoints are those of some source offsets."""

    async def told() -> bool:
        return {one: at[0] for one, at in (await sides.checkpoints()).items()} == wanted

    await until(told, lambda: (keeper.report, wanted))


async def test_a_commit_is_told_and_made_on_the_target_without_a_round(mirror: Mirror) -> None:
    topic = group = mirror.flow.source
    await mirror.topic(topic, 2)
    for partition in range(2):
        await produce(mirror.source, topic, partition, numbered(100))
    await stock.commit(mirror.source, group, topic, {0: 1})
    async with mirror.run() as run, keeping(mirror, *SELDOM) as keeper, Sides(mirror) as sides:
        await run.until_copied()
        await reading(keeper)
        for offset in (10, 20, 5, 30):
            await stock.commit(mirror.source, group, topic, {0: offset, 1: offset + 1})
            await until_told(keeper, sides, {(group, 0): offset, (group, 1): offset + 1})
        told = {partition: at[1] for (_, partition), at in (await sides.checkpoints()).items()}

        async def made() -> bool:  # a checkpoint goes before the commit
            return await sides.stored(group) == told

        await until(made, lambda: (keeper.report, told))
        # counted when the keeper has heard that its commit was taken
        await until(lambda: keeper.report.commit_latency.count >= 4, lambda: keeper.report)


async def test_a_new_group_is_found_by_its_first_commit(mirror: Mirror) -> None:
    topic = mirror.flow.source
    old, new = f"{topic}-old", f"{topic}-new"
    await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(50))
    await stock.commit(mirror.source, old, topic, {0: 3})
    async with mirror.run() as run, keeping(mirror, *SELDOM) as keeper, Sides(mirror) as sides:
        await run.until_copied()
        await reading(keeper)
        await stock.commit(mirror.source, new, topic, {0: 7})

        async def there() -> bool:
            return (await sides.checkpoints()).get((new, 0), (-1, -1))[0] == 7

        await until(there, lambda: keeper.report)


async def test_commits_of_a_transaction_count_from_its_end_and_hold_nobody_back(mirror: Mirror) -> None:
    """Both groups live in one partition: the open transaction of one must not hide the commits of the other."""
    topic = mirror.flow.source
    moved, plain = neighbours(topic)
    await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(50))
    for group in (moved, plain):
        await stock.commit(mirror.source, group, topic, {0: 1})
    async with mirror.run() as run, keeping(mirror, *SELDOM) as keeper, Sides(mirror) as sides:
        await run.until_copied()
        await reading(keeper)

        async def at(group: str, offset: int) -> bool:
            return (await sides.checkpoints()).get((group, 0), (-1, -1))[0] == offset

        await until(lambda: at(plain, 1), lambda: keeper.report)
        async with producer(mirror.source, transactional_id=f"{topic}-tx", transaction_timeout_ms=LONG_MS) as client:
            for offset, ends in ((20, client.commit_transaction), (30, client.abort_transaction)):
                await client.begin_transaction()
                await client.send_offsets_to_transaction({KafkaPartition(topic, 0): offset}, moved)
                await stock.commit(mirror.source, plain, topic, {0: offset + 1})
                await until(lambda offset=offset: at(plain, offset + 1), lambda: keeper.report)  # type: ignore[misc]
                assert not await at(moved, offset)
                await ends()
                await until(lambda: at(moved, 20), lambda: keeper.report)
            await stock.commit(mirror.source, plain, topic, {0: 40})
            await until(lambda: at(plain, 40), lambda: keeper.report)
            assert await at(moved, 20)


def neighbours(prefix: str) -> tuple[str, str]:
    """Return two groups whose commits go to the same partition of fifty."""
    homes: dict[int, str] = {}
    number = 0
    while True:
        group = f"{prefix}-{number}"
        home = java_hash(group) % 50
        if home in homes:
            return homes[home], group
        homes[home] = group
        number += 1


def java_hash(text: str) -> int:
    """Return Java's hash of a text, without its sign bit, as Kafka's partition of a group."""
    found = 0
    for letter in text:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return found & 0x7FFFFFFF if found < 0x80000000 else (0x100000000 - found) & 0x7FFFFFFF


async def deny(cluster: EmbeddedCluster, action: str) -> None:
    words = ("--bootstrap-server", cluster.bootstrap_servers, action, "--force", *_DENIED)
    await asyncio.to_thread(cluster.tool, _ACLS, *words)


async def test_without_the_right_to_read_commits_groups_are_polled(
    guarded_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_reader, "_REFUSED_S", 0.2)
    await deny(guarded_cluster, "--add")
    mirror = Mirror(guarded_cluster, target_cluster, "polled")
    await mirror.open()
    topic = group = mirror.flow.source
    await mirror.topic(topic)
    await produce(guarded_cluster, topic, 0, numbered(50))
    await stock.commit(guarded_cluster, group, topic, {0: 10})
    async with mirror.run() as run, keeping(mirror) as keeper, Sides(mirror) as sides:
        await run.until_copied()
        # While it asks again it does not know that yet, so a round may say that nothing is in its way.
        await until(lambda: "TopicAuthorizationFailed" in keeper.report.polled_because, lambda: keeper.report)
        assert not keeper.report.on_commit
        assert f"grant Read on topic {TOPIC}" in keeper.report.polled_because
        await until_told(keeper, sides, {(group, 0): 10})
        assert (await sides.source.offsets([group])).found[group] == {TopicPartition(topic, 0): (10, "")}
        (asked,) = await preview(config_of(mirror))
        assert "TopicAuthorizationFailed" in asked.polled
        assert keeper.report.commit_latency.count == 0
        await deny(guarded_cluster, "--remove")

        async def granted() -> bool:  # the broker hears of it a moment after the controller
            (asked,) = await preview(config_of(mirror))
            return asked.polled == ""

        await until(granted, lambda: keeper.report)
        await reading(keeper)
        await stock.commit(guarded_cluster, group, topic, {0: 20})
        await until_told(keeper, sides, {(group, 0): 20})
        await until(lambda: keeper.report.commit_latency.count >= 1, lambda: keeper.report)

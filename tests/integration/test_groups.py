"""Consumer groups between real clusters: stock consumers stopped on the source continue exactly on the target."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from policies.groups import GroupState
from policies.model import TopicPartition
from tests.harness import groups as stock
from tests.harness.admin import delete_records
from tests.harness.keeping import POLLED, Sides, keeping, rounds, until, until_moved
from tests.harness.load import Sent, numbered, produce, producer
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration


async def test_consumers_read_on_where_they_were(mirror: Mirror) -> None:
    """Partitions with a lagging group, one at the head, one in a hole, one that is empty, one ahead of the copy."""
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic, 5)
    await produce(mirror.source, topic, 0, numbered(100))
    await produce(mirror.source, topic, 1, numbered(100))
    await produce(mirror.source, topic, 2, numbered(10))
    async with producer(mirror.source, transactional_id=f"{topic}-aborted") as client:
        await client.begin_transaction()
        await client.send_and_wait(topic, b"never", partition=2)
        await client.abort_transaction()
    await produce(mirror.source, topic, 2, numbered(10, first=10))
    await produce(mirror.source, topic, 4, numbered(10))
    async with mirror.run() as run:
        await run.until_copied()
    await produce(mirror.source, topic, 4, numbered(10, first=10))
    # 10 and 11 of partition 2 are an aborted record and its marker; what lies behind 10 of partition 4 is not copied.
    await stock.commit(mirror.source, group, topic, {0: 37, 1: 100, 2: 11, 3: 0, 4: 15})
    async with keeping(mirror, POLLED) as keeper, Sides(mirror) as sides:
        report = await rounds(keeper)
        assert (sum(report.how.values()), report.without) == (4, {"beyond": 1})
        stored = await sides.stored(group)
        told = {partition: offsets for (_, partition), offsets in (await sides.checkpoints()).items()}
        assert told == {0: (37, stored[0]), 1: (100, stored[1]), 2: (11, stored[2]), 3: (0, stored[3]), 4: (10, 10)}
        assert stored[4] == 10, "the end of the copy, until more is copied"
        async with mirror.run() as run:
            await run.until_copied()
        await rounds(keeper)
        assert (await sides.stored(group))[4] == 15
    for partition in (1, 3):
        await produce(mirror.source, topic, partition, [Sent(None, b"next %d" % partition)])
    async with mirror.run() as run:
        await run.until_copied()
    read = await stock.read_from(mirror.target, group, copied, 63 + 1 + 10 + 1 + 5)
    first = {n: next(one.value.strip() for one in read if one.partition == n) for n in range(5)}
    assert first == {0: b"v37", 1: b"next 1", 2: b"v10", 3: b"next 3", 4: b"v15"}
    counts = [sum(one.partition == partition for one in read) for partition in range(5)]
    assert counts == [63, 1, 10, 1, 5]


async def test_an_application_moves_and_skips_and_repeats_nothing(mirror: Mirror) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic, 3)
    for partition in range(3):
        await produce(mirror.source, topic, partition, numbered(200, first=1000 * partition))
    async with mirror.run() as run, keeping(mirror, POLLED), Sides(mirror) as sides:
        await run.until_copied()
        before = await stock.read_from(mirror.source, group, topic, 250)
        await until_moved(sides, group)
        after = await stock.read_from(mirror.target, group, copied, 350)
    values = sorted(one.value.strip() for one in [*before, *after])
    assert values == sorted(b"v%d" % (1000 * partition + n) for partition in range(3) for n in range(200))


async def test_a_group_with_members_on_the_target_is_not_touched(mirror: Mirror) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(50))
    async with mirror.run() as run, keeping(mirror, POLLED) as keeper, Sides(mirror) as sides:
        await run.until_copied()
        async with stock.joined(mirror.target, group, copied):
            await stock.commit(mirror.source, group, topic, {0: 20})
            await until(lambda: keeper.report.active == 1, lambda: keeper.report)
            assert (await sides.target.states([group])).found == {group: GroupState.ACTIVE}
            assert await sides.stored(group) == {}
        await until_moved(sides, group)
        (checkpoint,) = (await sides.checkpoints()).values()
        assert await sides.stored(group) == {0: checkpoint[1]}


async def test_a_group_that_goes_back_is_followed_and_one_that_read_on_is_left(mirror: Mirror) -> None:
    topic = mirror.flow.source
    back, ahead = f"{topic}-back", f"{topic}-ahead"
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(50))
    async with mirror.run() as run, keeping(mirror, POLLED) as keeper, Sides(mirror) as sides:
        await run.until_copied()
        for group in (back, ahead):
            await stock.commit(mirror.source, group, topic, {0: 40})
            await until_moved(sides, group)
        forty = (await sides.stored(back))[0]
        await stock.commit(mirror.target, ahead, copied, {0: forty + 5})
        await stock.commit(mirror.source, back, topic, {0: 10})
        await stock.commit(mirror.source, ahead, topic, {0: 11})
        await rounds(keeper, 3)
        assert await sides.stored(back) == {0: forty - 30}
        assert await sides.stored(ahead) == {0: forty + 5}
        assert (await sides.checkpoints())[(ahead, 0)] == (11, forty - 29)


async def test_what_retention_ate_on_the_target_is_clamped(mirror: Mirror) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(50))
    async with mirror.run() as run:
        await run.until_copied()
    await delete_records(mirror.target, copied, {0: 30})
    await stock.commit(mirror.source, group, topic, {0: 5})
    async with keeping(mirror, POLLED) as keeper, Sides(mirror) as sides:
        report = await rounds(keeper)
        assert report.how == {"log start": 1}
        assert await sides.stored(group) == {0: 30}
        assert [type(event).__name__ for event in keeper.take_events()] == ["GroupClamped"]


async def test_another_keeper_tells_nothing_twice(mirror: Mirror) -> None:
    topic = group = mirror.flow.source
    await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(50))
    async with mirror.run() as run:
        await run.until_copied()
    await stock.commit(mirror.source, group, topic, {0: 20})
    for told in (1, 0):
        async with keeping(mirror, POLLED) as keeper:
            assert (await rounds(keeper)).checkpoints == told


@pytest.mark.full
async def test_mirrored_groups_outlive_a_minute_of_retention(source_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """A group that does not move stays on a target that forgets commits after a minute; one that nobody renews goes."""
    overrides = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    with EmbeddedCluster("forgetful", tmp_path / "forgetful", overrides=overrides) as target:
        mirror = Mirror(source_cluster, target, "forgetful")
        await mirror.open()
        topic = group = mirror.flow.source
        copied = await mirror.topic(topic)
        await produce(mirror.source, topic, 0, numbered(50))
        async with mirror.run() as run:
            await run.until_copied()
        await stock.commit(mirror.source, group, topic, {0: 20})
        async with keeping(mirror, "sync.group.offsets.interval.seconds = 60"), Sides(mirror) as sides:
            await until_moved(sides, group)
            await sides.target.commit("nobodys", {TopicPartition(copied, 0): (5, "")})

            async def forgotten() -> bool:
                assert await sides.stored(group) != {}
                return await sides.stored("nobodys") == {}

            await until(forgotten, lambda: "the broker forgets nothing", deadline_s=200.0)
            assert (await sides.stored(group)).keys() == {0}


async def test_kafkas_own_consumer_moves(mirror: Mirror, tmp_path: Path) -> None:
    """Kafka's Java console consumer, of the newer protocol: on the target it reads what came after, only that."""
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic, 2)
    for partition in range(2):
        await produce(mirror.source, topic, partition, numbered(100, first=100 * partition))
    async with mirror.run() as run, keeping(mirror, POLLED), Sides(mirror) as sides:
        before = await console(mirror.source, group, topic, tmp_path / "source.log", 200)
        for partition in range(2):
            await produce(mirror.source, topic, partition, numbered(50, first=1000 + 50 * partition))
        await run.until_copied()
        # The map may tell of none of it for seconds, and what the consumer committed at first be on the target by then.
        assert await until_moved(sides, group) == {0: 100, 1: 100}
        after = await console(mirror.target, group, copied, tmp_path / "target.log", 100)
    assert before == sorted(f"v{n}" for n in range(200))
    assert after == sorted(f"v{n}" for n in range(1000, 1100))


async def console(cluster: EmbeddedCluster, group: str, topic: str, log: Path, count: int) -> list[str]:
    """Let it print until it has nothing more to print, stop it cleanly, return what it printed."""

    def printed() -> list[str]:
        return [line.strip() for line in log.read_text().splitlines() if line.startswith("v")]

    async with stock.console_consumer(cluster, group, topic, log):
        await until(lambda: len(printed()) >= count, lambda: log.read_text())
    return sorted(printed())

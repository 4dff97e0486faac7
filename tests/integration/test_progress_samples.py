"""A copier's progress samples on a real target: they are true, and exist only if the configuration asks for them."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.core.reports.progress_sample import ProgressSample, decode_sample, lag_topic, progress_topic
from engine.services.runner import Copier
from policies.model import PartitionSet
from tests.harness.admin import admin, all_configs
from tests.harness.compare import read_topic
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

PARTITIONS, RECORDS = 3, 40


@asynccontextmanager
async def copying(mirror: Mirror, *lines: str) -> AsyncIterator[Copier]:
    """Run a copier of three partitions, as an actor does: looked at every now and then."""
    alias = mirror.flow.source
    text = [
        f"clusters = {alias}, b",
        f"{alias}.bootstrap.servers = {mirror.source_servers}",
        f"b.bootstrap.servers = {mirror.target_servers}",
        f"{alias}->b.enabled = true",
        "emit.offset-syncs.enabled = false",
        "offset.storage.replication.factor = 1",
        f"offset.storage.partitions = {mirror.options.positions_partitions}",
        *lines,
    ]
    config = read_config(parse_properties("\n".join([*text, ""]), "mm2.properties"))
    copier = Copier(config, config.flows[0], copier_id="copier-1", deployment_id=mirror.options.deployment_id)
    copier.assign(PartitionSet(set_id=f"{alias}->b/0", flow=config.flows[0].name, epoch=1, lanes=mirror.lanes))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(copier.run())
        yield copier
        await copier.drain()
        await running


async def samples_of(mirror: Mirror) -> list[ProgressSample]:
    """Read what was told, in order of time."""
    read = await read_topic(mirror.target, progress_topic(mirror.flow.source))
    return sorted(
        (decode_sample(one.value or b"") for part in read.values() for one in part), key=lambda one: one.at_ms
    )


async def test_what_a_copier_tells_is_what_it_did(mirror: Mirror) -> None:
    topic = f"{mirror.flow.source}-t"
    await mirror.topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        await produce(mirror.source, topic, partition, numbered(RECORDS))
    async with copying(mirror, "raymirror.progress.interval.seconds = 1") as copier, asyncio.timeout(120):
        told: list[ProgressSample] = []
        while not told or any(one.position != RECORDS for one in told[-1].lanes) or len(told) < 3:
            copier.progress()
            await asyncio.sleep(0.2)
            if await is_there(mirror):
                told = await samples_of(mirror)
    assert {one.copier for one in told} == {"copier-1"}
    assert all(later.at_ms > earlier.at_ms for earlier, later in itertools.pairwise(told))
    for partition in range(PARTITIONS):
        lanes = [lane for one in told for lane in one.lanes if lane.partition == partition]
        assert sum(lane.records for lane in lanes) == RECORDS
        assert (lanes[-1].source_end, lanes[-1].lag_ms, lanes[-1].topic) == (RECORDS, 0, topic)
    whole = [one.all for one in told if one.all is not None]
    assert len(whole) == len(told)
    assert sum(one.records for one in whole) == PARTITIONS * RECORDS
    assert 0 < sum(sum(one.append_ms) for one in whole) <= PARTITIONS * RECORDS
    assert {one.dropped for one in whole} == {0}
    progress = await all_configs(mirror.target, progress_topic(mirror.flow.source))
    assert (progress["cleanup.policy"], progress["message.timestamp.type"]) == ("delete", "LogAppendTime")
    lag = await all_configs(mirror.target, lag_topic(mirror.flow.source))
    assert lag["cleanup.policy"] == "compact"


async def is_there(mirror: Mirror) -> bool:
    """Whether the progress topic was made; asking for it by its name might make it."""
    async with admin(mirror.target) as client:
        return progress_topic(mirror.flow.source) in await client.list_topics()


async def test_where_nobody_asked_nothing_is_written(mirror: Mirror) -> None:
    topic = f"{mirror.flow.source}-t"
    await mirror.topic(topic, PARTITIONS)
    await produce(mirror.source, topic, 0, numbered(RECORDS))
    async with copying(mirror) as copier, asyncio.timeout(120):
        while sum(lane.records for lane in copier.progress().lanes) < RECORDS:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.05)
    assert not await is_there(mirror)

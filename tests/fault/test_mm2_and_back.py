"""MM2, then raymirror, then MM2, then raymirror, on one pair of clusters under load, each killed with kill -9."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import ConnectionLost
from engine.core.events.events import CopiedAgain, Resumed
from tests.harness.admin import create_topics
from tests.harness.compare import Read, read_topic
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.mm2 import Mm2, mm2_properties

pytestmark = [pytest.mark.integration, pytest.mark.fault]

PARTITIONS = 3
BURST = 50
DEADLINE_S = 180.0
FLUSH = {"b.offset.flush.interval.ms": "2000", "tasks.max": "1"}


class Load:
    """Numbered records to every partition, a burst at a time, until it is told to stop."""

    def __init__(self, mirror: Mirror, topic: str) -> None:
        self.sent = 0
        self._mirror, self._topic = mirror, topic
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Append, at about a thousand records a second on each partition."""
        async with producer(self._mirror.source) as client:
            while not self._stop.is_set():
                burst = numbered(BURST, first=self.sent)
                await asyncio.gather(*(append(client, self._topic, one, burst) for one in range(PARTITIONS)))
                self.sent += BURST
                await asyncio.sleep(BURST / 1000)  # the rate of the load, not a wait for anything

    def stop(self) -> None:
        """End with the burst under way."""
        self._stop.set()


@asynccontextmanager
async def loaded(pair: tuple[EmbeddedCluster, EmbeddedCluster], topic: str) -> AsyncIterator[tuple[Mirror, Load]]:
    """A topic that only exists on the source, and load on it; all but our own topic is MM2's to create."""
    mirror = Mirror(*pair, alias=topic, positions_partitions=25)
    await mirror.topic_on_source(topic, PARTITIONS)
    await create_topics(mirror.target, {mirror.map_topic: 25}, configs={"cleanup.policy": "compact"})
    mirror.lanes = lanes_of(topic, mirror.copied(topic), PARTITIONS)
    load = Load(mirror, topic)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        try:
            yield mirror, load
        finally:
            load.stop()


async def ends(mirror: Mirror) -> dict[int, int]:
    """Return where the copy ends; nothing before it exists."""
    async with mirror.asking_target() as target:
        names = [lane.target for lane in mirror.lanes]
        if len(await target.leaders(names)) < len(names):
            return dict.fromkeys(range(PARTITIONS), 0)
        try:
            return {one.partition: end for one, end in (await target.offsets(names, -1)).items()}
        except ConnectionLost:  # a topic that was just created
            return dict.fromkeys(range(PARTITIONS), 0)


async def mm2_copies(mirror: Mirror, folder: Path, topic: str, records: int) -> None:
    """Run MM2 until it has appended so many records to every partition, then kill it."""
    before = await ends(mirror)
    mm2 = Mm2(folder, mm2_properties(mirror, topic, FLUSH))
    try:
        async with asyncio.timeout(DEADLINE_S):
            while any(end < before[one] + records for one, end in (await ends(mirror)).items()):
                mm2.assert_running()
                await asyncio.sleep(0.05)
    finally:
        await mm2.kill()


async def ours_copies(mirror: Mirror, load: Load, *, last: bool) -> list[Any]:
    """Run ours for some thousand records and cut it off, or until the load has ended and everything is copied."""
    async with mirror.run(drain=last) as run:
        await run.until(
            lambda: len({one.lane for one in run.told(Resumed)}) == PARTITIONS, "all lanes are taken over", DEADLINE_S
        )
        wanted = load.sent + 3000
        await run.until(lambda: min(one.source_next for one in run.progress().lanes) > wanted, "copied", DEADLINE_S)
        if last:
            load.stop()
            await run.until_copied(deadline_s=DEADLINE_S)
        return run.events


def steps_back(records: list[Read]) -> list[tuple[int, int]]:
    """Check that every record is there, in order but for steps back; return these: (from, to) number."""
    numbers = [int((one.key or b"")[1:]) for one in records]
    assert sorted(set(numbers)) == list(range(max(numbers) + 1)), "records are missing"
    steps: list[tuple[int, int]] = []
    for one, following in itertools.pairwise(numbers):
        if following != one + 1:
            assert following <= one, f"{following} follows {one}: skipped, and copied later"
            steps.append((one, following))
    return steps


@pytest.mark.full  # a killed MM2 without load is in test_takeover_command.py
async def test_ours_goes_on_behind_what_a_killed_mm2_really_copied(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path
) -> None:
    async with loaded(pair, "from-mm2") as (mirror, load):
        await mm2_copies(mirror, tmp_path, "from-mm2", 4000)
        events = await ours_copies(mirror, load, last=True)
    assert [one for one in events if isinstance(one, CopiedAgain)] == []
    tails = [one.tail_records for one in events if isinstance(one, Resumed)]
    assert max(tails) > 0, "MM2 was killed right behind a position: nothing was shown"
    for records in (await read_topic(mirror.target, mirror.copied("from-mm2"))).values():
        assert len(records) == load.sent
        assert steps_back(records) == []


@pytest.mark.full
async def test_there_and_back_twice(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path, figures: dict[str, Any]
) -> None:
    async with loaded(pair, "and-back") as (mirror, load):
        await mm2_copies(mirror, tmp_path / "1", "and-back", 4000)
        first = await ours_copies(mirror, load, last=False)
        await mm2_copies(mirror, tmp_path / "2", "and-back", 4000)
        second = await ours_copies(mirror, load, last=True)
    again = [one for one in (*first, *second) if isinstance(one, CopiedAgain)]
    tails = [one.tail_records for one in (*first, *second) if isinstance(one, Resumed)]
    doubled: dict[int, list[tuple[int, int]]] = {}
    for partition, records in (await read_topic(mirror.target, mirror.copied("and-back"))).items():
        doubled[partition] = steps_back(records)
        # MM2 itself repeats what ours had copied since its last position: once, when it begins the second time.
        assert len(doubled[partition]) <= 1 + sum(one.lane.partition == partition for one in again), doubled
    figures["mm2 and back"] = {
        "records": load.sent * PARTITIONS,
        "lost": 0,
        "doubled by MM2 after ours was killed": sum(one - to + 1 for steps in doubled.values() for one, to in steps),
        "found behind MM2's positions and not copied again": tails,
        "copied again and said": [(one.lane.partition, one.first, one.last) for one in again],
    }

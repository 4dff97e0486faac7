"""kill -9 of the copier process in full flight, with its successor at once: nothing lost, doubled or reordered."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import Resumed
from tests.harness.admin import set_configs
from tests.harness.compaction import COMPACTED, settle
from tests.harness.compare import assert_identical, read_topic
from tests.harness.copier_process import Kill
from tests.harness.load import append, numbered, pour, produce, producer
from tests.harness.mirror import Mirror
from tests.harness.process import CopierProcess

pytestmark = [pytest.mark.integration, pytest.mark.fault]

PARTITIONS = 4
IN_FLIGHT, BEHIND = 1, 1000
TRANSACTION = 2_000
"""Records of one transaction, over all partitions."""


class Filling:
    """Fills the topic of a kind, and goes on while kills are due: no copier is done before its kill."""

    def __init__(self, mirror: Mirror, kind: str) -> None:
        self._mirror, self._kind = mirror, kind
        self._written = 0
        self.committed = 0
        """Records that a reader of committed records sees."""

    async def fill(self, count: int) -> None:
        """Append so many records."""
        if self._kind == "transactional":
            await self._transactions(count)
        else:
            await pour(self._mirror.source, self._kind, count, batch_bytes=16384)
            self.committed += count

    @asynccontextmanager
    async def ahead(self, count: int) -> AsyncIterator[None]:
        """Append so many records again and again until the block ends; the last ones are appended whole."""
        ended = asyncio.Event()

        async def go_on() -> None:
            while not ended.is_set():
                await self.fill(count)

        async with asyncio.TaskGroup() as group:
            group.create_task(go_on())
            try:
                yield
            finally:
                ended.set()

    async def _transactions(self, count: int) -> None:
        async with producer(self._mirror.source, transactional_id=self._kind, compression_type="lz4") as client:
            for turn in range(count // TRANSACTION):
                await client.begin_transaction()
                share = TRANSACTION // PARTITIONS
                for partition in range(PARTITIONS):
                    first = self._written + partition * share
                    await append(client, self._kind, partition, numbered(share, first=first, size_bytes=100))
                self._written += TRANSACTION
                if turn % 4 == 3:
                    await client.abort_transaction()
                else:
                    await client.commit_transaction()
                    self.committed += TRANSACTION


def moments(records: int, kills: int) -> Iterator[int]:
    """Random shares of the whole for each process, so that all kills fall within it."""
    chance = random.Random(records)
    for _ in range(kills):
        yield int(records / (kills + 1) * chance.uniform(0.3, 0.9))


async def run_with_kills(mirror: Mirror, moments_at: Iterator[int]) -> list[dict[str, Any]]:
    """Run copier after copier, each killing itself at its moment, the last one to the end; return a row per kill."""
    rows: list[dict[str, Any]] = []
    running = await CopierProcess.spawn(mirror, Kill(records=next(moments_at), in_flight=IN_FLIGHT, behind=BEHIND))
    running.go()
    while True:
        at = next(moments_at, None)
        kill = None if at is None else Kill(records=at, in_flight=IN_FLIGHT, behind=BEHIND)
        successor = await CopierProcess.spawn(mirror, kill)  # ready before its predecessor dies
        assert await running.ended() == -9, "the copier was to be killed"
        died_at = time.monotonic()
        successor.go()
        await successor.until(lambda: successor.last.started, "started")  # noqa: B023
        restart_s = time.monotonic() - died_at
        last = running.last
        assert last.killed
        await successor.until(
            lambda: len({one.lane for one in successor.told(Resumed)}) == len(mirror.lanes),  # noqa: B023
            "all lanes resumed",
        )
        resumed = successor.told(Resumed)
        rows.append(
            {
                "records": last.records,
                "in_flight": last.in_flight,
                "behind": last.behind,
                "restart_s": round(restart_s, 3),
                "tails": [event.tail_records for event in resumed],
                "how": sorted({event.how for event in resumed}),
            }
        )
        await running.close()
        running = successor
        if kill is None:
            break
    return [*rows, {"last": running}]


async def finish(mirror: Mirror, running: CopierProcess) -> None:
    """Let the last process copy to the end and drain."""
    async with mirror.asking_source() as source:
        ends = await source.offsets([lane.source for lane in mirror.lanes], -1)
    await running.until(lambda: running.last.copied >= sum(ends.values()), "all copied")
    await running.drain()
    await running.close()


@pytest.mark.parametrize(
    ("kind", "kills", "config"),
    [
        ("plain", 5, {}),
        pytest.param("transactional", 3, {}, marks=pytest.mark.full),
        pytest.param("append-time", 2, {"message.timestamp.type": "LogAppendTime"}, marks=pytest.mark.full),
    ],
)
async def test_kills_in_full_flight(
    pair: tuple[EmbeddedCluster, EmbeddedCluster],
    record_count: int,
    figures: dict[str, Any],
    kind: str,
    kills: int,
    config: dict[str, str],
) -> None:
    count = int(record_count * kills / 10)
    # Small fetches, one at a time: the copy lasts long enough for every kill to fall within it.
    slow: dict[str, Any] = {"partition_fetch_bytes": 256 * 1024, "range_connections": 1}
    mirror = Mirror(*pair, alias=f"kill-{kind}", flush_bytes=2 * 1024 * 1024, **slow)
    await mirror.open()
    copied = await mirror.topic(kind, PARTITIONS, on_source=config)
    filling = Filling(mirror, kind)
    await filling.fill(count)
    async with filling.ahead(count // 10):
        *rows, last = await run_with_kills(mirror, moments(filling.committed, kills))
    await finish(mirror, last["last"])
    for row in rows:
        print(kind, row)  # noqa: T201
    identical = await assert_identical(mirror.source, mirror.target, kind, copied, committed=True)
    assert identical == filling.committed
    figures[f"copier killed, {kind}"] = {"kills": rows, "identical_records": identical}
    assert all(row["in_flight"] >= IN_FLIGHT and row["behind"] >= BEHIND for row in rows)
    assert all(sum(row["tails"]) >= row["behind"] for row in rows), "a tail held less than was acknowledged"


@pytest.mark.full
async def test_a_compacted_source_cleaned_between_kill_and_restart(
    pair: tuple[EmbeddedCluster, EmbeddedCluster],
) -> None:
    """Counting the target's records would lose records here: what was copied is no longer in the source."""
    mirror = Mirror(*pair, alias="cleaned", partition_fetch_bytes=16 * 1024)
    await mirror.open()
    copied = await mirror.topic("cleaned")
    await produce(mirror.source, "cleaned", 0, numbered(60_000, keys=200, size_bytes=200), max_batch_size=8192)
    before = (await read_topic(mirror.source, "cleaned"))[0]
    first = await CopierProcess.spawn(mirror, Kill(records=5_000, in_flight=IN_FLIGHT, behind=BEHIND))
    first.go()
    assert await first.ended() == -9
    await first.close()
    at_kill = first.last
    await set_configs(mirror.source, "cleaned", COMPACTED)
    await settle(mirror.source, "cleaned", keep=202)
    left = (await read_topic(mirror.source, "cleaned"))[0]
    second = await CopierProcess.spawn(mirror)
    second.go()
    await second.until(lambda: bool(second.told(Resumed)), "resumed")
    resumed = second.told(Resumed)[0]
    assert resumed.tail_records >= BEHIND
    await finish(mirror, second)
    # The source had no holes when the first copier read it: its offsets count its records.
    reached = resumed.source_offset
    assert reached >= at_kill.records
    found = (await read_topic(mirror.target, copied))[0]
    assert found[:reached] == before[:reached]
    assert len(left) <= 203
    assert found[reached:] == left

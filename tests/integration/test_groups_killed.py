"""An application that is killed under load and moved: on the target it continues exactly at its last commit.

No record is skipped, and no more are repeated than it had read since that commit. Judged by the records' contents.
"""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.tools import QUICK_FLAGS, start_tool
from tests.harness import groups as stock
from tests.harness.keeping import Sides, keeping, until, until_moved
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

PARTITIONS, BURST = 3, 20
APART = 1_000_000
"""Numbers of one partition's records begin so far from those of the one before."""
FEWEST, MOST = 200, 2_000
"""Records that an application has read when it is killed."""
_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"

Killed = Callable[[EmbeddedCluster, str, str, Path], "subprocess.Popen[bytes]"]


def stock_application(cluster: EmbeddedCluster, group: str, topic: str, log: Path) -> "subprocess.Popen[bytes]":
    words = (sys.executable, "-m", "tests.harness.reader_process", cluster.bootstrap_servers, group, topic)
    with log.open("wb") as out:
        return subprocess.Popen(words, stdout=out)


def java_application(cluster: EmbeddedCluster, group: str, topic: str, log: Path) -> "subprocess.Popen[bytes]":
    words = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group", group, "--from-beginning")
    properties = ("group.protocol=consumer", "auto.commit.interval.ms=300")
    asked = [word for one in properties for word in ("--consumer-property", one)]
    return start_tool(_CONSOLE, *words, *asked, log_file=log, heap_mib=128, flags=QUICK_FLAGS)


class Load:
    """Records appended all the time, and how many there are of each partition."""

    def __init__(self, mirror: Mirror, topic: str) -> None:
        self._mirror, self._topic = mirror, topic
        self.counts = [0] * PARTITIONS
        self._enough = asyncio.Event()

    async def run(self) -> None:
        async with producer(self._mirror.source) as client:
            while not self._enough.is_set():
                for partition in range(PARTITIONS):
                    records = numbered(BURST, first=APART * partition + self.counts[partition])
                    await append(client, self._topic, partition, records)
                    self.counts[partition] += BURST
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.run())
            try:
                yield
            finally:
                self._enough.set()

    def values(self, partition: int, first: int = 0) -> list[str]:
        """Return what the records of a partition hold, from an offset on."""
        return [f"v{APART * partition + number}" for number in range(first, self.counts[partition])]


def printed(log: Path) -> list[str]:
    """Return the whole lines that an application has printed of records."""
    lines = log.read_text().split("\n")[:-1]
    return [line.strip() for line in lines if line.startswith("v")]


@contextmanager
def killed_in_the_end(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("application", [stock_application, pytest.param(java_application, marks=pytest.mark.full)])
async def test_a_killed_application_reads_on_from_its_last_commit(
    mirror: Mirror, application: Killed, tmp_path: Path
) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic, PARTITIONS)
    enough = random.randint(FEWEST, MOST)
    load, log = Load(mirror, topic), tmp_path / "source.log"
    async with mirror.run() as run, keeping(mirror) as keeper, Sides(mirror) as sides:
        async with load.going_on():
            process = application(mirror.source, group, topic, log)
            with killed_in_the_end(process):
                await until(lambda: len(printed(log)) >= enough, lambda: (enough, log.read_text()[-500:]))
            before, then = printed(log), list(load.counts)
            await until(lambda: min(load.counts) >= max(then) + BURST, lambda: load.counts)
        await run.until_copied()
        moved = await until_moved(sides, group)
        commits = [moved.get(partition, 0) for partition in range(PARTITIONS)]
        left = [load.values(partition, first) for partition, first in enumerate(commits)]
        after = await stock.read_from(mirror.target, group, copied, sum(map(len, left)))
        await until(lambda: keeper.report.on_commit, lambda: keeper.report)
    read = [[one.value.decode().strip() for one in after if one.partition == number] for number in range(PARTITIONS)]
    assert read == left, (enough, commits)
    everything = {value for partition in range(PARTITIONS) for value in load.values(partition)}
    assert everything == {*before, *(value for values in read for value in values)}, (enough, commits)
    repeated = set(before).intersection(*[[value for values in read for value in values]])
    assert len(repeated) == len(before) - sum(commits), (enough, commits)

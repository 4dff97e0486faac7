"""The lag query on real topics: killed and started again, it loses and doubles no window; the newest are right."""

import asyncio
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from deploy.local.cluster import EmbeddedCluster
from engine.config.storage import Storage
from engine.core.events.event_base import Event
from engine.core.reports.progress_sample import progress_topic
from engine.jobs.lag.history import most_complete
from engine.jobs.lag.options import LagOptions, lag_table_uri
from engine.jobs.lag.query import keep_going
from engine.jobs.runtime.idle_wait import IdleWait
from engine.jobs.tables.care import fold
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.table import Table
from policies.model import FlowName
from tests.harness.admin import create_topics
from tests.harness.lag_host import Bucket, lag_host
from tests.harness.lag_windows import Windows, expected, newest_values, windows_of
from tests.harness.load import Sent, produce
from tests.harness.samples import Truth, told

# PySpark leaves the sockets that it reads results from to the garbage collector.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DEADLINE_S, BUCKET_DEADLINE_S = 600.0, 1200.0
WINDOW_MS = 5000
KILLS = 5
GONE = "the checkpoint of the lag history is gone"


class Story:
    """A job of lag in a process of its own, and a simulated copier whose samples come to it part by part.

    `bucket`: where the history is stored, instead of the folder.
    """

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, source: str, parts: int, bucket: Bucket | None = None
    ) -> None:
        self.flow, self._bucket = FlowName(source, "b"), bucket
        self.storage = Storage.of_folder(folder) if bucket is None else bucket.storage
        self.table = Table(lag_table_uri(self.storage), LAG)
        self._cluster, self._folder, self._parts = cluster, folder, parts
        self._log = folder / "host.log"
        self._deadline_s = DEADLINE_S if bucket is None else BUCKET_DEADLINE_S
        start_ms = (time.time_ns() // 1_000_000 - 120_000) // 10_000 * 10_000
        self._lanes = [
            Truth(topic="t", partition=n, start_ms=start_ms, produced=(10,) * 90, copied=(10 - n,) * 90)
            for n in range(4)
        ]
        self._records = list(told(self._lanes, every_s=1, flow=str(self.flow)))
        self._told = 0

    async def more(self) -> Windows:
        """Tell the next part; give what the history is to hold."""
        topic = progress_topic(self.flow.source)
        if not self._told:
            await create_topics(self._cluster, {topic: 1}, replicas=min(3, len(self._cluster.brokers)))
        some = slice(*(at * len(self._records) // self._parts for at in (self._told, self._told + 1)))
        await produce(self._cluster, topic, 0, [Sent(None, value) for _, value in self._records[some]])
        self._told += 1
        return await expected(self._cluster, self.flow, WINDOW_MS)

    def host(self, executors: int = 0) -> AbstractContextManager[int]:
        """Run the job; it is killed at the end."""
        servers, window_s = self._cluster.bootstrap_servers, WINDOW_MS / 1000
        return lag_host(
            self._folder,
            self.flow,
            servers,
            window_s=window_s,
            log=self._log,
            executors=executors,
            bucket=self._bucket,
        )

    def checkpoint(self) -> Path:
        """Say where the checkpoint of the query is."""
        found = self.storage.folder("checkpoints", "lag", *self.flow)
        assert found is not None
        return found

    def read(self) -> Windows:
        return windows_of(self.storage, self.flow)

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def until(self, holds: Callable[[], Any]) -> None:
        """Look until a condition holds; fails with what is there."""
        give_up_at = time.monotonic() + self._deadline_s
        while not holds():
            assert time.monotonic() < give_up_at, (self.read(), self.said()[-4000:])
            time.sleep(0.2)

    def until_read(self, wanted: Windows) -> None:
        """Wait until the history holds these windows."""
        self.until(lambda: self.read() == wanted)

    async def until_newest(self) -> None:
        """Wait until the lag topic has the truth at the end of all samples."""
        assert self._told == self._parts
        truth = {n: lane.lag(90) for n, lane in enumerate(self._lanes)}
        async with asyncio.timeout(DEADLINE_S):
            while (found := await newest(self._cluster, self.flow.source)) != truth:
                assert set(found) <= set(truth)
                await asyncio.sleep(0.5)


async def newest(cluster: EmbeddedCluster, source: str) -> dict[int, int]:
    """Read the last lag in records of each partition from the lag topic."""
    return {partition: value["lag_records"] for (_, partition), value in (await newest_values(cluster, source)).items()}


async def test_killed_at_any_moment_it_loses_and_doubles_no_window(
    source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    story = Story(source_cluster, tmp_path, "lag-query", parts=5)
    data = story.storage.folder("tables", "lag")
    assert data is not None
    await story.more()
    with story.host():  # killed while it writes its first batch
        story.until(lambda: any(data.rglob("*.parquet*")) or any(data.rglob("_temporary")))
    await story.more()
    with story.host():  # killed when its first batch is committed, and the checkpoint may not know it yet
        story.until(story.read)
    wanted = await story.more()
    with story.host():
        story.until_read(wanted)
        story.until_read(await story.more())
    assert GONE not in story.said()
    assert "is refused" not in story.said(), "a batch that comes again is made of the same samples"
    story.checkpoint().rename(tmp_path / "lost")
    wanted = await story.more()
    with story.host():  # a window is stored before it is published: both are waited for
        story.until_read(wanted)
        assert fold(story.table, 2**43, most_complete)[0] >= 1
        assert story.read() == wanted
        await story.until_newest()
    assert GONE in story.said()


def executors_of(host: int) -> list[psutil.Process]:
    """List the executors that have registered with a host, or are about to."""
    return [one for one in psutil.Process(host).children(recursive=True) if "CoarseGrained" in " ".join(cmdline(one))]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


async def test_executors_killed_while_they_work_lose_and_double_no_window(
    source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    story = Story(source_cluster, tmp_path, "lag-executors", parts=KILLS + 1)
    wanted = await story.more()
    with story.host(executors=2) as host:
        story.until_read(wanted)
        for kill in range(KILLS):
            wanted = await story.more()
            executor = executors_of(host)[kill % 2]
            executor.kill()
            executor.wait(DEADLINE_S)
            story.until(lambda: len(executors_of(host)) == 2)
            story.until_read(wanted)
        await story.until_newest()


def lose_state(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "state")


def cut_offsets(checkpoint: Path) -> None:
    newest = max(
        (one for one in (checkpoint / "offsets").iterdir() if one.name.isdigit()), key=lambda one: int(one.name)
    )
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.write_bytes(newest.read_bytes()[:5])


@pytest.mark.parametrize("damage", [lose_state, cut_offsets])
async def test_a_checkpoint_that_is_of_no_use_is_made_anew(
    damage: Callable[[Path], None], source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    story = Story(source_cluster, tmp_path, damage.__name__.replace("_", "-"), parts=2)
    wanted = await story.more()
    checkpoint = story.checkpoint()
    with story.host():
        story.until_read(wanted)
        # a batch that is not committed is done again from the state before it: the first needs none
        story.until(lambda: any((checkpoint / "commits").glob("[0-9]*")))
    damage(checkpoint)
    wanted = await story.more()
    with story.host():
        story.until_read(wanted)
        await story.until_newest()
    assert "cannot be used any more" in story.said()


async def test_it_ends_when_it_is_asked_to(
    spark: SparkSession, source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    flow, stop = FlowName("lag-stop", "b"), threading.Event()
    await create_topics(source_cluster, {progress_topic(flow.source): 1}, replicas=min(3, len(source_cluster.brokers)))
    options = {"kafka.bootstrap.servers": source_cluster.bootstrap_servers}
    stop.set()
    told_events: list[Event] = []
    report = keep_going(
        spark, LagOptions(flow=flow), Storage.of_folder(tmp_path), options, told_events.append, stop, IdleWait()
    )
    assert (report.rows, told_events) == (0, [])

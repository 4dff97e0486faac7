"""The query of lag on real topics: killed and started again, it loses and doubles no window; the newest are right."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from deploy.local.cluster import Cluster
from engine.core.event_base import Event
from engine.core.progress_sample import decode_sample, lag_topic, progress_topic
from engine.jobs.history import History
from engine.jobs.history_care import compact
from engine.jobs.lag import keep_going
from engine.jobs.lag_terms import LagTerms, history_uri
from engine.jobs.storage import Storage
from policies.model import FlowName
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.lag_host import lag_host
from tests.harness.load import Sent, produce
from tests.harness.samples import Truth, told

# PySpark leaves the sockets that it reads results from to the garbage collector.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DEADLINE_S = 240.0
WINDOW_MS = 5000
Windows = dict[tuple[str, int, str, int], int]
"""Samples by topic, partition, copier (of copiers' own rows) and beginning of a window."""


def windows_of(uri: str) -> Windows:
    """Read a history; fails where a window is there twice."""
    found: Windows = {}
    for _, table in History(uri).hours(0, 2**45):
        for row in table.to_pylist():
            key = row["topic"], row["partition"], row["copier_key"], row["window_start_ms"]
            assert key not in found
            found[key] = row["samples"]
    return found


async def expected(cluster: Cluster, flow: FlowName) -> Windows:
    """Count the samples that the topic holds by their windows."""
    found: Windows = {}
    for records in (await read_topic(cluster, progress_topic(flow.source))).values():
        for record in records:
            sample = decode_sample(record.value or b"")
            begins = sample.at_ms // WINDOW_MS * WINDOW_MS
            keys = [(lane.topic, lane.partition, "", begins) for lane in sample.lanes]
            for key in [*keys, ("", -1, sample.copier, begins)]:
                found[key] = found.get(key, 0) + 1
    return found


def until(holds: Callable[[], Any], what: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < give_up_at, what()
        time.sleep(0.2)


async def test_killed_at_any_moment_it_loses_and_doubles_no_window(source_cluster: Cluster, tmp_path: Path) -> None:
    flow, storage = FlowName("lag-query", "b"), Storage.of_folder(tmp_path)
    topics = (progress_topic(flow.source), lag_topic(flow.source))
    await create_topics(source_cluster, dict.fromkeys(topics, 1), replicas=min(3, len(source_cluster.brokers)))
    start_ms = (time.time_ns() // 1_000_000 - 120_000) // 10_000 * 10_000
    lanes = [
        Truth(topic="t", partition=n, start_ms=start_ms, produced=(10,) * 90, copied=(10 - n,) * 90) for n in range(4)
    ]
    records = list(told(lanes, every_s=1, flow=str(flow)))
    fifth, log = len(records) // 5, tmp_path / "host.log"

    async def more(number: int) -> Windows:
        some = records[number * fifth : (number + 1) * fifth]
        await produce(source_cluster, topics[0], 0, [Sent(None, value) for _, value in some])
        return await expected(source_cluster, flow)

    def read() -> Windows:
        return windows_of(history_uri(storage, flow))

    def host() -> AbstractContextManager[int]:
        return lag_host(tmp_path, flow, source_cluster.bootstrap_servers, window_s=WINDOW_MS / 1000, log=log)

    def said() -> object:
        return read(), log.read_text(errors="replace")[-4000:]

    data = storage.folder("history", "lag", flow.source, flow.target)
    checkpoints = storage.folder("checkpoints")
    assert data is not None
    assert checkpoints is not None
    await more(0)
    with host():  # killed while it writes its first batch
        until(lambda: any(data.rglob("*.parquet*")) or any(data.rglob("_temporary")), said)
    await more(1)
    with host():  # killed when its first batch is committed, and the checkpoint may not know it yet
        until(lambda: read(), said)
    wanted = await more(2)
    with host():
        until(lambda: read() == wanted, said)
        wanted = await more(3)
        until(lambda: read() == wanted, said)
    checkpoints.rename(tmp_path / "lost")
    wanted = await more(4)
    truth = {n: lanes[n].lag(90) for n in range(4)}
    with host():  # a window is stored before it is published: both are waited for
        until(lambda: read() == wanted, said)
        assert compact(History(history_uri(storage, flow)), 0) >= 1
        assert read() == wanted
        async with asyncio.timeout(DEADLINE_S):
            while (found := await newest(source_cluster, topics[1])) != truth:
                assert set(found) <= set(truth)
                await asyncio.sleep(0.5)


async def newest(cluster: Cluster, topic: str) -> dict[int, int]:
    """Read the last lag in records of each partition from the lag topic."""
    found: dict[int, int] = {}
    for record in (await read_topic(cluster, topic))[0]:
        value: dict[str, Any] = msgspec.json.decode(record.value or b"")
        found[msgspec.json.decode(record.key or b"")["partition"]] = value["lag_records"]
    return found


async def test_it_ends_when_it_is_asked_to(spark: SparkSession, source_cluster: Cluster, tmp_path: Path) -> None:
    flow, stop = FlowName("lag-stop", "b"), threading.Event()
    await create_topics(source_cluster, {progress_topic(flow.source): 1}, replicas=min(3, len(source_cluster.brokers)))
    options = {"kafka.bootstrap.servers": source_cluster.bootstrap_servers}
    stop.set()
    told_events: list[Event] = []
    report = keep_going(spark, LagTerms(flow=flow), Storage.of_folder(tmp_path), options, told_events.append, stop)
    assert (report.rows, told_events) == (0, [])

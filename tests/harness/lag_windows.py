"""The content of a history of lag, and the content it should have by the samples on the progress topic."""

from collections.abc import Mapping
from typing import Any

import msgspec

from deploy.local.cluster import EmbeddedCluster
from engine.config.storage import Storage
from engine.core.reports.progress_sample import decode_sample, lag_topic, progress_topic
from engine.jobs.lag.history import History
from engine.jobs.lag.options import lag_table_uri
from policies.model import FlowName
from tests.harness.admin import admin
from tests.harness.compare import read_topic

Windows = dict[tuple[str, int, str, int], int]
"""Samples by topic, partition, copier (of copiers' own rows) and beginning of a window."""


def windows_of(storage: Storage, flow: FlowName) -> Windows:
    """Read the history of a flow; nothing before its first batch. Fails where a window is there twice."""
    found: Windows = {}
    history = History(lag_table_uri(storage))
    for table in history.windows(0, 2**45, flow=str(flow)) if history.exists() else ():
        for row in table.to_pylist():
            key = row["topic"], row["partition"], row["copier_key"], row["window_start_ms"]
            assert key not in found
            found[key] = row["samples"]
    return found


async def expected(cluster: EmbeddedCluster, flow: FlowName, window_ms: int) -> Windows:
    """Count the samples that the topic holds by their windows."""
    found: Windows = {}
    for records in (await read_topic(cluster, progress_topic(flow.source))).values():
        for record in records:
            sample = decode_sample(record.value or b"")
            begins = sample.at_ms // window_ms * window_ms
            keys = [(lane.topic, lane.partition, "", begins) for lane in sample.lanes]
            for key in [*keys, ("", -1, sample.copier, begins)]:
                found[key] = found.get(key, 0) + 1
    return found


def before(windows: Windows, end_ms: int) -> Windows:
    """Leave out what begins at an instant or later."""
    return {key: samples for key, samples in windows.items() if key[3] < end_ms}


async def newest_values(cluster: EmbeddedCluster, source: str) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Read the last value of each lane from the lag topic of a source; none where it has not been made yet."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    async with admin(cluster) as client:  # to ask for a topic by its name would make it, and not as it should be
        if lag_topic(source) not in await client.list_topics():
            return found
    for record in (await read_topic(cluster, lag_topic(source)))[0]:
        lane: dict[str, Any] = msgspec.json.decode(record.key or b"")
        found[lane["topic"], lane["partition"]] = msgspec.json.decode(record.value or b"")
    return found

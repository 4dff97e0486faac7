"""The lag history of a real mirror with Spark on: windows, newest values, breaches, and the commands."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import wall_ms
from engine.config.storage import Storage
from policies.model import FlowName
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.lag_windows import before, expected, newest_values, windows_of
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.ray_node import kill_and_wait
from tests.integration.test_spark import READY_S, SETTINGS
from tests.integration.test_spark_faults import AGAIN_S, executors_of, host_of

pytestmark = [pytest.mark.integration, pytest.mark.ray]

FLOW = FlowName("past", "present")
TOPIC = "remembered-past"
WINDOW_MS = 30_000
FIRST, SECOND = 50, 20


@contextmanager
def remembered(
    flow: FlowName, pair: Pair, ray: RayCluster, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[LiveMirror]:
    """Run a mirror of one topic, named as its source, whose history is kept below a folder."""
    topic = f"remembered-{flow.source}"
    asyncio.run(create_topics(pair.source, {topic: 1}))
    config = write_properties(
        folder / "mm2.properties",
        {flow.source: pair.source, flow.target: pair.target},
        {str(flow): topic},
        {
            **SETTINGS,
            "raymirror.storage": kept_in(folder).uri,
            "raymirror.progress.interval.seconds": "1",
            "raymirror.rpo.seconds": "2",
            **(settings or {}),
        },
    )
    live = LiveMirror(folder, config, env=ray.env)
    try:
        live.until(lambda: live.status["phase"] == "running", "the mirror runs", READY_S)
        yield live
    finally:
        live.close()


def kept_in(folder: Path) -> Storage:
    return Storage.of_folder(folder / "kept")


async def produce(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    async with producer(cluster) as client:
        await append(client, topic, 0, numbered(count))


def until_kept(live: LiveMirror, target: EmbeddedCluster, flow: FlowName, folder: Path) -> None:
    """Wait until the window that goes on now is over, and the history has every sample of it and of all before."""
    end_ms = until_next_window(live, target, flow)

    def kept() -> bool:
        found = before(windows_of(kept_in(folder), flow), end_ms)
        return bool(found) and found == before(asyncio.run(expected(target, flow, WINDOW_MS)), end_ms)

    live.until(kept, f"the history until {end_ms} is whole", AGAIN_S)


def until_next_window(live: LiveMirror, target: EmbeddedCluster, flow: FlowName) -> int:
    """Wait until a window is over, and give its end."""
    end_ms = window_end_ms(wall_ms())
    until_newer(live, target, flow, end_ms)
    return end_ms


def window_end_ms(at_ms: int) -> int:
    """Say when the window of an instant is over: a point of the history is what a window ended with."""
    return (at_ms // WINDOW_MS + 1) * WINDOW_MS


def until_newer(live: LiveMirror, target: EmbeddedCluster, flow: FlowName, end_ms: int) -> None:
    def newest() -> bool:
        value = asyncio.run(newest_values(target, flow.source)).get((f"remembered-{flow.source}", 0))
        return value is not None and bool(value["last_ms"] > end_ms)

    live.until(newest, f"the newest value is of later than {end_ms}", AGAIN_S)


def command(live: LiveMirror, *words: str) -> str:
    """Run a command beside the mirror, and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "actors", *words],
        env=live.env,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def is_host(process: psutil.Process) -> bool:
    try:
        return "ray::SparkHostActor" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def test_a_mirror_keeps_the_history_of_its_lag(cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path) -> None:
    with remembered(FLOW, cluster_pair, shared_ray, tmp_path) as live:
        asyncio.run(produce(cluster_pair.source, TOPIC, FIRST))
        live.until_whole({str(FLOW): FIRST})
        command(live, "pause")
        asyncio.run(produce(cluster_pair.source, TOPIC, SECOND))
        live.until(lambda: live.flow(str(FLOW))["lag_records"] == SECOND, "all that waits is known")
        # Samples come once a second, and nothing is copied until this window is over: it ends with all that waits.
        # Spark starts meanwhile.
        over_ms = window_end_ms(wall_ms() + 3000)
        live.until(lambda: live.told("if the source were lost now"), "the breach is told", READY_S)
        at_work = {f"lag {FLOW}": "running", "care lag": "running"}
        live.until(lambda: jobs_of(live) == at_work, "both jobs run", READY_S)
        live.until(lambda: newest_lag(cluster_pair) == SECOND, "the newest value is of what waits")
        until_newer(live, cluster_pair.target, FLOW, over_ms)

        command(live, "resume")
        live.until_whole({str(FLOW): FIRST + SECOND})
        live.until(lambda: live.told("within its objective of 2 s again"), "its end is told", READY_S)
        live.until(lambda: newest_lag(cluster_pair) == 0, "the newest value is the present one")

        told = json.loads(command(live, "lag", "--history", "--since", "1h", "--json"))
        points: list[dict[str, Any]] = [one for one in told["topics"] if one["topic"] == TOPIC]
        # A window that ended before the source's end was heard has no lag.
        known = [point["lag_records"] for point in points if point["lag_records"] is not None]
        assert max(known) == SECOND
        (breach,) = [one for one in told["breaches"] if one["topic"] == TOPIC]
        assert breach["worst_s"] > 2
        page = tmp_path / "report.html"
        command(live, "report", "--since", "1h", "-o", str(page))
        assert str(FLOW).replace(">", "&gt;") in page.read_text()
        live.end()


def jobs_of(live: LiveMirror) -> dict[str, str]:
    return {job["job_id"]: job["state"] for job in live.status["spark"]["jobs"]}


def newest_lag(pair: Pair) -> int:
    """Read what the lag topic says of the topic now."""
    return int(asyncio.run(newest_values(pair.target, FLOW.source))[TOPIC, 0]["lag_records"])


@pytest.mark.full
@pytest.mark.parametrize(("victims", "kills"), [(host_of, 4), (executors_of, 5)])
def test_hosts_and_executors_killed_lose_and_double_no_window(
    victims: Callable[[RayCluster], list[psutil.Process]],
    kills: int,
    cluster_pair: Pair,
    shared_ray: RayCluster,
    tmp_path: Path,
) -> None:
    flow = FlowName(f"past-{kills}", "present")
    both = {"raymirror.spark.executors": "2", "raymirror.spark.executors.idle.seconds": "0"}
    with remembered(flow, cluster_pair, shared_ray, tmp_path, both) as live:
        until_kept(live, cluster_pair.target, flow, tmp_path)
        for _ in range(kills):
            live.until(lambda: victims(shared_ray), "there is one to kill", AGAIN_S)
            kill_and_wait(victims(shared_ray)[:1])
            until_kept(live, cluster_pair.target, flow, tmp_path)
        live.end()


@pytest.mark.full
def test_a_host_that_moves_to_another_node_goes_on(cluster_pair: Pair, tmp_path: Path) -> None:
    flow, settings = FlowName("past-moved", "present"), {"raymirror.storage.shared": "true"}
    with (
        ray_cluster(tmp_path / "ray", (3, 3), head_java=False) as ray,
        remembered(flow, cluster_pair, ray, tmp_path, settings) as live,
    ):
        until_kept(live, cluster_pair.target, flow, tmp_path)
        (node,) = [node for node in ray.nodes if any(is_host(one) for one in node.processes())]
        ray.kill_node(node)
        until_kept(live, cluster_pair.target, flow, tmp_path)
        assert not live.told("the checkpoint of the lag history is gone")
        live.end()

"""Cost of thousands of consumer groups: `python -m bench.micro.groups`, on embedded clusters of one broker each.

A mirror, started as users start it, copies a steady load. Every group commits offsets of every partition on the source
again and again, and the bench reads the checkpoints topic on the target. It prints the time from a commit to the last
of its checkpoints, by group, and the CPU of the mirror's metadata actor, which does all of this. `--polled` switches
the reading of commits off. At the end the mirror is stopped, and a separate process commits the right offsets of all
groups on the target, as a failover does (`hold`): its time, CPU and memory, when nothing is committed there yet, and
when everything is.
"""

import argparse
import asyncio
import contextlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.dataset import Backlog
from bench.errors import BenchError
from bench.measure import running
from bench.processes import ProcessTree
from bench.systems import raymirror
from bench.systems.launch import Job
from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.config import load_config
from engine.core.mm2.mm2_records import decode_checkpoint
from engine.flow.ports.ports import EARLIEST, LATEST, Stored
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.dr.failover import Failover
from policies.model import TopicPartition
from tests.harness.admin import create_topics
from tests.harness.mirror import cluster_client

_ALIAS, _TOPIC = "grp", "orders"
_RECORDS, _RECORD_BYTES, _LOAD = 2_000, 1_000, 2_000
"""Records of each partition at the start, their size, and how many a second are written during the run."""
_METADATA = "ray::MetadataActor"
_AT_ONCE = 16
_WITHIN_S = 300.0
_LOOK_S = 0.05
_QUIET_S = 70.0
"""Seconds: longer than the minute between two rounds over all groups."""


class Groups:
    """Groups that commit, and their checkpoints on the target."""

    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster, groups: int, partitions: int) -> None:
        self._clients = [cluster_client("a", source.bootstrap_servers), cluster_client("b", target.bootstrap_servers)]
        self._groups = KafkaGroups(self._clients[0])
        self._target = KafkaCluster(self._clients[1])
        self.names = [f"bench-{number:05d}" for number in range(groups)]
        self._lanes = [TopicPartition(_TOPIC, number) for number in range(partitions)]
        self._random = random.Random(5)
        self._wanted: dict[str, dict[int, int]] = {}
        self._at: dict[str, float] = {}
        self._last: dict[str, int] = {}
        self._read_to = 0
        self.latencies_s: list[float] = []

    async def open(self) -> None:
        for client in self._clients:
            await client.open()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def commit_all(self, every_s: float = 0.0) -> None:
        """Let every group commit once, evenly over some time."""
        began, at_once = time.monotonic(), asyncio.Semaphore(_AT_ONCE)

        async def one(number: int, group: str) -> None:
            await asyncio.sleep(max(0.0, began + every_s * number / len(self.names) - time.monotonic()))
            async with at_once:
                last = self._last.setdefault(group, 0)
                offset = self._last[group] = (last + self._random.randrange(1, _RECORDS)) % _RECORDS
                rows: dict[TopicPartition, Stored] = dict.fromkeys(self._lanes, (offset, ""))
                self._wanted[group] = {lane.partition: offset for lane in self._lanes}
                self._at.pop(group, None)
                refused = await self._groups.commit(group, rows)
                if refused:
                    raise BenchError("source", f"commit of {group}: {refused}")
                self._at[group] = time.monotonic()

        async with asyncio.TaskGroup() as tasks:
            for number, group in enumerate(self.names):
                tasks.create_task(one(number, group))

    async def follow(self) -> None:
        """Read checkpoints until cancelled, and note when a group has checkpoints of all its last commits."""
        topic = TopicPartition(f"{_ALIAS}.checkpoints.internal", 0)
        while True:
            with contextlib.suppress(ConnectionLost, BrokerUnreachable, KafkaRefusal):
                await self._catch_up(topic)
            await asyncio.sleep(_LOOK_S)

    async def _catch_up(self, topic: TopicPartition) -> None:
        if topic not in await self._target.leaders([topic]):
            return
        end = (await self._target.offsets([topic], LATEST))[topic]
        start = max(self._read_to, (await self._target.offsets([topic], EARLIEST))[topic])
        async for records in self._target.read_log(topic, start, end, committed=True):
            now = time.monotonic()
            for record in records:
                self._read_to = record.offset + 1
                told = decode_checkpoint(record.key, record.value)
                wanted = self._wanted.get(told.group)
                if wanted is None or wanted.get(told.partition) != told.source_offset:
                    continue
                del wanted[told.partition]
                if not wanted:
                    del self._wanted[told.group]
                    self.latencies_s.append(max(0.0, now - self._at.get(told.group, now)))
            await asyncio.sleep(0)

    async def until_fresh(self) -> float:
        """Wait until every group has its checkpoints; return the seconds since the last commit."""
        deadline = time.monotonic() + _WITHIN_S
        while self._wanted:
            if time.monotonic() > deadline:
                raise BenchError("raymirror", f"{len(self._wanted):,} groups without their checkpoints")
            await asyncio.sleep(_LOOK_S)
        return time.monotonic() - max(self._at.values())

    def taken(self) -> dict[str, float]:
        """Return quantiles of the latencies since the last call."""
        found, self.latencies_s = sorted(self.latencies_s), []
        return {
            name: round(found[min(len(found) - 1, int(len(found) * part))], 2)
            for name, part in (("p50_s", 0.5), ("p99_s", 0.99), ("max_s", 1.0))
            if found
        }


class Meter:
    """CPU seconds of the metadata actor."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree

    def look(self) -> tuple[float, float]:
        self._tree.discover()
        sample = self._tree.sample()
        return time.monotonic(), sum(sample.cpu_s.get(key, 0.0) for key in self._tree.members(_METADATA))

    def since(self, before: tuple[float, float]) -> dict[str, float]:
        now = self.look()
        wall_s, cpu_s = now[0] - before[0], now[1] - before[1]
        return {"wall_s": round(wall_s, 1), "metadata_cpu_s": round(cpu_s, 2), "cores": round(cpu_s / wall_s, 3)}

    def peak_rss_mib(self) -> float:
        return round(self._tree.peak_rss_bytes(self._tree.members(_METADATA)) / 2**20, 1)


async def _run(
    args: argparse.Namespace, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path
) -> dict[str, Any]:
    await create_topics(source, {_TOPIC: args.partitions})
    await asyncio.to_thread(_pour, source, _RECORDS * args.partitions * 2, -1)
    groups = Groups(source, target, args.groups, args.partitions)
    await groups.open()
    await groups.commit_all()
    servers = source.bootstrap_servers, target.bootstrap_servers
    job = Job.between(*servers, Backlog.short(_TOPIC), _ALIAS, folder / "job")
    settings = {"groups": "bench-.*", "raymirror.groups.on.commit": "false" if args.polled else "true"}
    launch = raymirror.launch(job, settings)
    found: dict[str, Any] = {"groups": args.groups, "partitions": args.partitions, "on_commit": not args.polled}
    with _poured(source, folder), running(launch, job) as (_, tree):
        found |= await _measured(args, groups, Meter(tree))
    for name in ("hold", "hold_again"):
        found[name] = await asyncio.to_thread(_held, job.folder / "mm2.properties")
    await groups.close()
    return found


async def _measured(args: argparse.Namespace, groups: Groups, meter: Meter) -> dict[str, Any]:
    found: dict[str, Any] = {}
    following = asyncio.create_task(groups.follow())
    await groups.until_fresh()
    groups.taken()
    found["waves"] = []
    for _ in range(args.waves):
        before = meter.look()
        await groups.commit_all()
        committing_s = time.monotonic() - before[0]
        fresh_s = await groups.until_fresh()
        wave = {"committing_s": round(committing_s, 1), "all_fresh_after_s": round(fresh_s, 2)}
        found["waves"].append({**wave, **meter.since(before), **groups.taken()})
        print(json.dumps(found["waves"][-1]), flush=True)
    before = meter.look()
    for _ in range(args.waves):
        await groups.commit_all(args.every)
    rate = args.groups * args.waves / (time.monotonic() - before[0])
    fresh_s = await groups.until_fresh()
    steady = {"commits_per_s": round(rate, 1), "all_fresh_after_s": round(fresh_s, 2)}
    found["steady"] = {**steady, **meter.since(before), **groups.taken()}
    print(json.dumps(found["steady"]), flush=True)
    before = meter.look()
    await asyncio.sleep(_QUIET_S)
    found["quiet"] = meter.since(before)
    found["metadata_peak_rss_mib"] = meter.peak_rss_mib()
    following.cancel()
    await asyncio.wait([following])
    return found


def _words(cluster: EmbeddedCluster, count: int, rate: int) -> tuple[str, ...]:
    size = ("--num-records", str(count), "--record-size", str(_RECORD_BYTES), "--throughput", str(rate))
    properties = ("--command-property", f"bootstrap.servers={cluster.bootstrap_servers}", "linger.ms=50")
    return ("--topic", _TOPIC, *size, *properties)


_TOOL = "org.apache.kafka.tools.ProducerPerformance"


def _pour(cluster: EmbeddedCluster, count: int, rate: int) -> None:
    cluster.tool(_TOOL, *_words(cluster, count, rate), timeout_s=_WITHIN_S)


@contextlib.contextmanager
def _poured(cluster: EmbeddedCluster, folder: Path) -> Any:
    """Write records all the time."""
    process = cluster.popen_tool(_TOOL, *_words(cluster, 10**9, _LOAD), log_file=folder / "load.log")
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _held(config: Path) -> dict[str, Any]:
    done = subprocess.run(
        (sys.executable, "-m", "bench.micro.groups", "--hold", str(config)), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError("hold", done.stderr[-1500:])
    print(done.stdout.strip(), flush=True)
    held: dict[str, Any] = json.loads(done.stdout)
    return held


async def _hold(path: Path) -> dict[str, Any]:
    config = load_config(path)
    before, began = time.process_time(), time.monotonic()
    async with Failover(config, config.flows[0]) as failover:
        standing = await failover.hold(_WITHIN_S, commit=True, undrained={})
    return {
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(time.process_time() - before, 2),
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "groups": standing.groups,
        "offsets": len(standing.stands),
        "unequal": len(standing.unequal),
        "failed": len(standing.failed),
    }


def main() -> None:
    """Measure; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--waves", type=int, default=3, help="how often all groups commit at once")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two commits of a group")
    parser.add_argument("--polled", action="store_true", help="poll groups, do not read commits")
    parser.add_argument("--hold", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hold:
        print(json.dumps(asyncio.run(_hold(args.hold))))
        return
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        source, target = (EmbeddedCluster(one, Path(name) / one) for one in ("source", "target"))
        with running_clusters(source, target):
            found = asyncio.run(_run(args, source, target, Path(name)))
    print(json.dumps({"bench": "micro.groups", "systems": {"raymirror": found}}))


if __name__ == "__main__":
    main()

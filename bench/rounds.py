"""Runs systems over the same backlogs in turns: two clusters of one broker, payload by payload, round by round."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from bench.admin import create_topic, delete_topics
from bench.dataset import Backlog, Payload, fill
from bench.errors import BenchError
from bench.figures import Runs
from bench.measure import Run, idle_rss_mib, run_relay, run_system
from bench.parts import Parts
from bench.systems.launch import Job, Launch
from bench.tls import with_tls
from deploy.local.cluster import EmbeddedCluster, running_clusters

RELAY = "relay"
_WARM_UP_MIB = 64
_BROKER_HEAP_MIB = 1024
_IDLE_TOPIC = "bench-idle"

Launches = Mapping[str, Callable[[Job], Launch]]


class Verdict(Protocol):
    """Says whether a copy is what it should be, beyond the number of its records."""

    def note(self, backlog: Backlog, source: str) -> None:
        """Read a new backlog, which copies will be compared with."""

    def judge(self, system: str, job: Job) -> None:
        """Compare a finished copy; raises BenchError if it differs."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    mib: int
    """Of records, uncompressed, in each backlog."""
    partitions: int
    repeats: int


class Rounds:
    """The pair of clusters, and the runs over its backlogs; `tls`: the systems connect to listeners with TLS."""

    def __init__(self, folder: Path, launches: Launches, systems: list[str], size: Size, *, tls: bool = False) -> None:
        self._folder, self._launches, self._systems, self._size = folder, launches, systems, size
        self._source = EmbeddedCluster("source", folder / "source", heap_mib=_BROKER_HEAP_MIB)
        # Kafka keeps deleted logs for a minute; fifteen copies of the backlog would fill the disk.
        at_once = {"log.segment.delete.delay.ms": "1000"}
        self._source.overrides |= at_once
        self._target = EmbeddedCluster("target", folder / "target", heap_mib=_BROKER_HEAP_MIB, overrides=at_once)
        self._tls = with_tls(self._source, self._target, folder) if tls else None
        self._runs_made = 0

    @contextmanager
    def running(self, warm_up: Payload) -> Iterator[None]:
        """Start both clusters, and stop them at the end, whatever happens. Raises ClusterError, BenchError."""
        with running_clusters(self._source, self._target):
            # A new broker appends at a fraction of its speed until Java has compiled the code for a batch.
            self._fill(self._target, warm_up, "warm-up", min(_WARM_UP_MIB, self._size.mib))
            yield

    def idle(self, system: str) -> float:
        """Measure the resident memory of a system's copiers on an empty topic, in MiB. Raises BenchError."""
        partitions = self._size.partitions
        asyncio.run(create_topic(self._source.bootstrap_servers, _IDLE_TOPIC, partitions))
        job = self._job(system, Backlog.short(_IDLE_TOPIC, partitions))
        try:
            return idle_rss_mib(system, self._launches[system](job), job)
        finally:
            asyncio.run(delete_topics(job.target, containing=job.alias))

    def run_each(
        self,
        bench: str,
        payloads: Sequence[Payload],
        parts: Parts,
        verdict: Callable[[], Verdict | None] = lambda: None,
    ) -> dict[str, tuple[Backlog, Runs]]:
        """Run payload after payload: the runs of one stay if another cannot be written.

        Raises BenchError if none could be.
        """
        found = {}
        for payload in payloads:
            if (done := parts.measure(payload.name, partial(self.run, payload, parts, verdict()))) is not None:
                found[payload.name] = done
        if not found:
            raise BenchError(bench, "no payload has figures")
        return found

    def run(self, payload: Payload, parts: Parts, verdict: Verdict | None = None) -> tuple[Backlog, Runs]:
        """Fill a backlog, and let every system copy it once per round; another system comes first in each round, so
        that none always meets cold brokers. Raises BenchError if the backlog cannot be filled.
        """
        backlog = self._fill(self._source, payload, f"bench-{payload.name}", self._size.mib)
        try:
            if verdict is not None:
                verdict.note(backlog, self._source.bootstrap_servers)
            runs: Runs = {system: [] for system in self._systems}
            for repeat in range(self._size.repeats):
                first = repeat % len(self._systems)
                for system in self._systems[first:] + self._systems[:first]:
                    name = f"{payload.name}, round {repeat + 1}, {system}"
                    run = parts.measure(name, partial(self._run_once, system, backlog, verdict))
                    runs[system].append(run)
                    if run is not None:
                        print(f"{name}: {run.wall_s:.2f} s, CPU {run.cpu_s:.2f} s", flush=True)
            return backlog, runs
        finally:
            # All payloads at once would fill the disk and the page cache.
            asyncio.run(delete_topics(self._source.bootstrap_servers, containing=backlog.topic))

    def _fill(self, cluster: EmbeddedCluster, payload: Payload, topic: str, mib: int) -> Backlog:
        partitions = self._size.partitions
        asyncio.run(create_topic(cluster.bootstrap_servers, topic, partitions))
        backlog = fill(cluster, payload, topic, partitions=partitions, mib=mib, folder=self._folder)
        print(
            f"filled {topic}: {backlog.records:,} records, {backlog.wire_bytes / 2**20:,.0f} MiB,"
            f" {backlog.records / backlog.batches:,.1f} records a batch",
            flush=True,
        )
        return backlog

    def _job(self, system: str, backlog: Backlog) -> Job:
        self._runs_made += 1
        alias = f"{system.replace('-', '')}{self._runs_made:03d}"
        folder = self._folder / f"run-{self._runs_made:03d}"
        job = Job.between(self._source.bootstrap_servers, self._target.bootstrap_servers, backlog, alias, folder)
        return msgspec.structs.replace(job, tls=self._tls)

    def _run_once(self, system: str, backlog: Backlog, verdict: Verdict | None) -> Run:
        job = self._job(system, backlog)
        if system == RELAY:
            return run_relay(job)
        launch = self._launches[system](job)
        if launch.needs_topic:
            asyncio.run(create_topic(job.target, job.target_topic, backlog.partitions))
        try:
            run = run_system(system, launch, job)
            if verdict is not None:
                verdict.judge(system, job)
            return run
        finally:
            # Delete all topics of this run, internal ones too: the next system finds the target as this one did.
            asyncio.run(delete_topics(job.target, containing=job.alias))

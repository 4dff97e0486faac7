"""Measures one run over a distance: a fixed time from the first record at the target, or until all of them are there.

The target is asked directly, not through the proxy. The window begins with the last look that saw no record there, and
ends with the look that saw the last append, or with the first one after the time is over.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek, LogCount
from bench.measure import running
from bench.processes import ProcessTree, TreeSample
from bench.systems.launch import Job, Launch
from bench.wan.distance import Carried, DistanceProxy
from bench.watch import DISCOVER_S, LOOK_S

_START_TIMEOUT_S = 300.0
"""A system asks a far cluster for hundreds of things one after the other before it copies."""
_MARKERS_BEFORE = 1
_MIDDLE_FROM, _MIDDLE_TO = 0.25, 0.75
_MIB = 1024 * 1024


class WanRun(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run; field names as in the bench's JSON."""

    mib_per_s: float
    """Bytes of records (uncompressed) in the whole window, start and end of the copy included."""
    middle_mib_per_s: float
    """The same between the moments when a quarter and three quarters of what was copied had arrived."""
    wall_s: float
    records: int
    is_whole: bool
    """Whether everything was copied before the time was over; then the records were also counted."""
    cpu_s: float
    """For raymirror: its copiers alone."""
    cpu_all_s: float
    cpu_s_per_gib: float
    peak_rss_mib: float
    peak_rss_all_mib: float
    start_s: float
    connections: int
    """The most that were open through the proxy at once in the window."""
    carried_ratio: float
    """Bytes through the proxy in the direction of the records, by the bytes of the batches copied."""
    target_batch_kib: float
    """Mean size of the batches at the target, as they are stored."""
    late_chunks: int
    proxy_cpu_s: float


class Ends:
    """End offsets of a topic, from each broker of a cluster directly."""

    def __init__(self, peeks: list[KafkaPeek]) -> None:
        self._peeks = peeks

    @classmethod
    @contextmanager
    def of(cls, bootstrap: str) -> Iterator["Ends"]:
        """Connect to every broker."""
        with ExitStack() as stack:
            yield cls([stack.enter_context(KafkaPeek(address)) for address in bootstrap.split(",")])

    def read(self, topic: str, partitions: int) -> list[int]:
        """High watermark of each partition; 0 where the topic does not exist. A broker tells those that it leads."""
        answers = [peek.end_offsets(topic, partitions) for peek in self._peeks]
        return [max(ends) for ends in zip(*answers, strict=True)]

    def count(self, topic: str, partition: int) -> LogCount:
        """Count a partition by batch header, at the broker that leads it: others know no end of it."""
        return max((peek.count(topic, partition) for peek in self._peeks), key=lambda count: count.records)


class Pace:
    """How many records were at the target when."""

    def __init__(self, counts: tuple[int, ...]) -> None:
        self._counts = counts
        self.looks: list[tuple[float, int]] = []
        """Instant and records, only where the records changed."""

    def add(self, at: float, ends: list[int]) -> None:
        """Take one look; markers may let a partition end behind its last record."""
        records = sum(min(end, count) for end, count in zip(ends, self._counts, strict=True))
        if not self.looks or records != self.looks[-1][1]:
            self.looks.append((at, records))

    @property
    def records(self) -> int:
        """Records at the last look."""
        return self.looks[-1][1] if self.looks else 0

    @property
    def has_all(self) -> bool:
        """Whether every partition is complete."""
        return self.records == sum(self._counts)

    def middle_per_s(self) -> float:
        """Records a second between a quarter and three quarters of the records; 0 if both fell into one look."""
        first, last = (self._when(self.records * share) for share in (_MIDDLE_FROM, _MIDDLE_TO))
        return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else 0.0

    def _when(self, records: float) -> tuple[float, int]:
        return next(look for look in self.looks if look[1] >= records)


class _Mark(msgspec.Struct, frozen=True):
    """State at one end of the window."""

    at: float
    cpu: TreeSample
    carried: Carried


def run_system(
    system: str, launch: Launch, job: Job, direct_target: str, proxy: DistanceProxy, seconds: float
) -> WanRun:
    """Run a system for some seconds of copying; raises BenchError, with the end of its log, if it does not copy."""
    with Ends.of(direct_target) as ends:
        started_at = time.monotonic()
        with running(launch, job) as (process, tree):
            watch = _Watch(system, job, process, tree, ends, proxy)
            first, last = watch.watch(seconds)
            tree.discover()
            run = _figures(launch, job, tree, watch.pace, first, last, started_at)
        return msgspec.structs.replace(run, target_batch_kib=_require_honest(system, job, ends, watch.pace))


class _Watch:
    """Looks at the target, the processes and the proxy."""

    def __init__(
        self,
        system: str,
        job: Job,
        process: subprocess.Popen[bytes],
        tree: ProcessTree,
        ends: Ends,
        proxy: DistanceProxy,
    ) -> None:
        self._system, self._job, self._process = system, job, process
        self._tree, self._ends, self._proxy = tree, ends, proxy
        self._discovered_at = 0.0
        self.pace = Pace(job.backlog.counts)

    def watch(self, seconds: float) -> tuple[_Mark, _Mark]:
        """Return both ends of the window."""
        began_at = time.monotonic()
        first = mark = self._mark()
        while max(ends := self._look()) <= _MARKERS_BEFORE:
            self._require_alive()
            if time.monotonic() - began_at > _START_TIMEOUT_S:
                raise BenchError(self._system, f"no record at the target within {_START_TIMEOUT_S:.0f} s")
            time.sleep(LOOK_S)
            # Before the look: the window begins no later than the look that saw nothing.
            first, mark = mark, self._mark()
        self.pace.add(first.at, [0] * len(ends))
        self.pace.add(time.monotonic(), ends)
        while not self.pace.has_all and time.monotonic() - first.at < seconds:
            self._require_alive()
            time.sleep(LOOK_S)
            ends = self._look()
            self.pace.add(time.monotonic(), ends)
        return first, self._mark()

    def _look(self) -> list[int]:
        now = time.monotonic()
        if now - self._discovered_at >= DISCOVER_S:
            self._tree.discover()
            self._discovered_at = now
        return self._ends.read(self._job.target_topic, self._job.backlog.partitions)

    def _mark(self) -> _Mark:
        return _Mark(time.monotonic(), self._tree.sample(), self._proxy.read())

    def _require_alive(self) -> None:
        if self._process.poll() is not None:
            what = f"{self.pace.records} of {self._job.backlog.records} records at the target"
            raise BenchError(self._system, f"ended by itself with {self._process.returncode}, {what}")


def _figures(
    launch: Launch, job: Job, tree: ProcessTree, pace: Pace, first: _Mark, last: _Mark, started_at: float
) -> WanRun:
    copiers = tree.members(launch.copier_mark) if launch.copier_mark else None
    if copiers is not None and not copiers:
        raise BenchError(job.alias, f"no process with {launch.copier_mark!r} in its command line")
    backlog, wall_s, cpu_s = job.backlog, last.at - first.at, last.cpu.since(first.cpu, copiers)
    record_bytes = backlog.logical_bytes / backlog.records
    copied_bytes = pace.records * record_bytes
    wire_bytes = backlog.wire_bytes * pace.records / backlog.records
    requests = last.carried.request_bytes - first.carried.request_bytes
    answers = last.carried.answer_bytes - first.carried.answer_bytes
    return WanRun(
        mib_per_s=copied_bytes / _MIB / wall_s,
        middle_mib_per_s=pace.middle_per_s() * record_bytes / _MIB,
        wall_s=wall_s,
        records=pace.records,
        is_whole=pace.has_all,
        cpu_s=cpu_s,
        cpu_all_s=last.cpu.since(first.cpu),
        cpu_s_per_gib=cpu_s / (copied_bytes / 2**30),
        peak_rss_mib=tree.peak_rss_bytes(copiers) / _MIB,
        peak_rss_all_mib=tree.peak_rss_bytes() / _MIB,
        start_s=first.at - started_at,
        connections=last.carried.connections_most,
        carried_ratio=max(requests, answers) / wire_bytes,
        target_batch_kib=0.0,
        late_chunks=last.carried.late_chunks - first.carried.late_chunks,
        proxy_cpu_s=last.carried.cpu_s - first.carried.cpu_s,
    )


def _require_honest(system: str, job: Job, ends: Ends, pace: Pace) -> float:
    """Count the target by batch header; return the mean KiB of a batch. Raises BenchError if a record is there twice,
    or is missing though it was seen.

    Of a copy that was cut off by the time only bounds are known: at least what was seen, at most what the source has.
    """
    counts = [ends.count(job.target_topic, partition) for partition in range(job.backlog.partitions)]
    for partition, (count, expected) in enumerate(zip(counts, job.backlog.counts, strict=True)):
        if count.records > expected or (pace.has_all and count.records != expected):
            place = f"{job.target_topic}-{partition}"
            raise BenchError(system, f"{place} holds {count.records} records, the source {expected}: no figure")
    records = sum(count.records for count in counts)
    if records < pace.records - _MARKERS_BEFORE * job.backlog.partitions:
        raise BenchError(system, f"{records} records at the target, {pace.records} were seen: no figure")
    return sum(count.wire_bytes for count in counts) / sum(count.batches for count in counts) / 1024

"""Measures one run: starts a system, watches the target, accounts for the processes, ends it, counts the records.

The window of a run goes from the last poll that saw no records in the target topic to the poll that saw the last
append: it holds the first and the last append, and up to one poll interval (20 ms) more at each end.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.processes import ProcessKey, ProcessTree, is_alive
from bench.systems.launch import Job, Launch
from bench.watch import DISCOVER_S, LOOK_S, START_TIMEOUT_S, Look, Settling, Watch

_STOP_TIMEOUT_S = 40.0
_IDLE_S, _IDLE_WITHIN_BYTES = 5.0, 1024 * 1024
_LOG_TAIL = 1500
_MIB = 1024 * 1024


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run; field names as in the bench's JSON."""

    wall_s: float
    cpu_s: float
    """For raymirror: its copiers alone."""
    cpu_all_s: float
    records: int
    logical_mib: float
    wire_mib: float
    """Bytes of record batches read from the source."""
    target_wire_mib: float
    """Bytes of record batches the target holds afterwards: recompressing systems change them."""
    target_batches: int
    """Batches with records that the target holds afterwards."""
    peak_rss_mib: float
    peak_rss_all_mib: float
    start_s: float
    """Seconds from the command to the start of the window."""
    processes: int

    @property
    def rates(self) -> dict[str, float]:
        """Per CPU-second of the copying processes, and per second of wall time."""
        return {
            "logical_mib_per_cpu_s": self.logical_mib / self.cpu_s,
            "logical_mib_per_cpu_all_s": self.logical_mib / self.cpu_all_s,
            "wire_mib_per_cpu_s": self.wire_mib / self.cpu_s,
            "records_per_cpu_s": self.records / self.cpu_s,
            "logical_mib_per_s": self.logical_mib / self.wall_s,
            "records_per_target_batch": self.records / self.target_batches,
        }


def run_system(system: str, launch: Launch, job: Job) -> Run:
    """Run one system over one backlog; raises BenchError, with the end of its log, unless every record arrived once."""
    with KafkaPeek(job.target) as peek:
        started_at = time.monotonic()
        with running(launch, job) as (process, _):
            watch = Watch(system, job, process, peek)
            first, last = watch.watch()
            watch.tree.discover()
            run = _figures(launch, job, watch.tree, first, last, started_at)
        batches, wire_bytes = _require_whole(system, job, peek)
        return msgspec.structs.replace(run, target_batches=batches, target_wire_mib=wire_bytes / _MIB)


def idle_rss_mib(system: str, launch: Launch, job: Job) -> float:
    """Resident memory of the copiers of a system that has nothing to copy, after it has stopped changing."""
    with running(launch, job) as (process, tree):
        deadline = time.monotonic() + START_TIMEOUT_S
        seen = Settling(within=_IDLE_WITHIN_BYTES, for_s=_IDLE_S)
        while not seen.is_settled:
            time.sleep(DISCOVER_S)
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(system, "no copier came to rest on an empty topic")
            tree.discover()
            seen.add(tree.rss_bytes(tree.members(launch.copier_mark)), time.monotonic())
    return seen.value / _MIB


@contextmanager
def running(launch: Launch, job: Job) -> Iterator[tuple[subprocess.Popen[bytes], ProcessTree]]:
    """Start a system, and end it with its whole process tree at exit; a BenchError in between gets the end of its log.

    Its output goes to a file in its folder.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **launch.environment}
    with log_file(job).open("wb") as log:
        process = subprocess.Popen(
            launch.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    tree = ProcessTree(process.pid)
    try:
        yield process, tree
    except BenchError as error:
        text = output(job)[-_LOG_TAIL:].strip() or "(nothing)"
        raise BenchError(error.system, f"{error.what}; its output ends: {text}") from None
    finally:
        _end(process, tree)


def output(job: Job) -> str:
    """Return the output of the system of a job so far."""
    return log_file(job).read_text(errors="replace")


def log_file(job: Job) -> Path:
    """Return the file that has the output of the system of a job."""
    return job.folder / "output.log"


def run_relay(job: Job) -> Run:
    """Run the bare relay over as many bytes as the backlog's batches have; it measures itself."""
    backlog = job.backlog
    certificates = () if job.tls is None else (str(job.tls.authority), str(job.tls.chain))
    command = (sys.executable, "-m", "bench.systems.relay", str(backlog.wire_bytes), *certificates)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S)
    if done.returncode:
        raise BenchError("relay", done.stderr[-500:])
    report = json.loads(done.stdout)
    if report["bytes"] != backlog.wire_bytes:
        raise BenchError("relay", f"{report['bytes']} of {backlog.wire_bytes} bytes arrived")
    rss_mib = report["peak_rss_bytes"] / _MIB
    return Run(
        wall_s=report["wall_s"],
        cpu_s=report["cpu_s"],
        cpu_all_s=report["cpu_s"],
        records=backlog.records,
        logical_mib=backlog.logical_bytes / _MIB,
        wire_mib=backlog.wire_bytes / _MIB,
        target_wire_mib=backlog.wire_bytes / _MIB,
        target_batches=backlog.batches,
        peak_rss_mib=rss_mib,
        peak_rss_all_mib=rss_mib,
        start_s=0.0,
        processes=1,
    )


def _figures(launch: Launch, job: Job, tree: ProcessTree, first: Look, last: Look, started_at: float) -> Run:
    copiers: frozenset[ProcessKey] | None = None
    if launch.copier_mark:
        copiers = tree.members(launch.copier_mark)
        if not copiers:
            raise BenchError(job.alias, f"no process with {launch.copier_mark!r} in its command line")
    return Run(
        wall_s=last.at - first.at,
        cpu_s=last.cpu.since(first.cpu, copiers),
        cpu_all_s=last.cpu.since(first.cpu),
        records=job.backlog.records,
        logical_mib=job.backlog.logical_bytes / _MIB,
        wire_mib=job.backlog.wire_bytes / _MIB,
        target_wire_mib=0.0,
        target_batches=1,
        peak_rss_mib=tree.peak_rss_bytes(copiers) / _MIB,
        peak_rss_all_mib=tree.peak_rss_bytes() / _MIB,
        start_s=first.at - started_at,
        processes=len(last.cpu.cpu_s),
    )


def _require_whole(system: str, job: Job, peek: KafkaPeek) -> tuple[int, int]:
    """Count the target by batch header; returns its batches and their bytes, raises BenchError unless each record is
    there once.
    """
    batches = wire_bytes = 0
    for partition, expected in enumerate(job.backlog.counts):
        count = peek.count(job.target_topic, partition)
        batches, wire_bytes = batches + count.batches, wire_bytes + count.wire_bytes
        if count.records != expected:
            place = f"{job.target_topic}-{partition}"
            raise BenchError(system, f"{place} holds {count.records} records, the source {expected}: no figure")
    return batches, wire_bytes


def _end(process: subprocess.Popen[bytes], tree: ProcessTree) -> None:
    """End the system as its user would, and then the rest of its process tree, by pid and start time."""
    tree.discover()
    tree.sample()
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    deadline = time.monotonic() + _STOP_TIMEOUT_S / 4
    left = [key for key in tree.living() if is_alive(key)]
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        left = [key for key in left if is_alive(key)]
    for pid, _ in left:
        os.kill(pid, signal.SIGKILL)

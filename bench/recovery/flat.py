"""`flat`: memory of a copier at full speed for a long time, while a producer writes as fast as it can."""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.admin import create_topic
from bench.dataset import LZ4, RECORD_BYTES, write_payload_file
from bench.errors import BenchError
from bench.figures import machine
from bench.recovery.ends import ClusterEnds
from bench.recovery.memory import Memory, MemoryWatch, summarise
from bench.recovery.mirror import COPIER, METADATA, SUPERVISOR, MirrorRun, write_config
from deploy.local.cluster import EmbeddedCluster, running_clusters

BUDGET_MIB, ABOVE_MIB = 64, 160
"""A copier's default memory for batches, and what it may have above it."""
TOPIC, PARTITIONS = "bench-flat", 8
RETAINED_BYTES = 128 * 1024 * 1024
"""Of one partition, on both sides; a copy that is further behind has a gap, and is failed."""
_CONFIGS = {
    "retention.bytes": str(RETAINED_BYTES),
    "segment.bytes": str(RETAINED_BYTES // 8),
}
_OVERRIDES = {"log.retention.check.interval.ms": "5000", "log.segment.delete.delay.ms": "1000"}
_MINUTES, _QUICK_MINUTES = 30.0, 1.0
_ROLES = {"copier": COPIER, "supervisor": SUPERVISOR, "metadata": METADATA}
_PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
_FLOWING_S, _DRAIN_S, _VERIFY_S, _END_S, _POLL_S = 300.0, 120.0, 1800.0, 30.0, 1.0
_ENDLESS = 2**40
_ROOT = Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--minutes", type=float, help=f"minutes (default {_MINUTES:g}, quick {_QUICK_MINUTES:g})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: memory grew or was too much, or the copy is not whole."""
    minutes = args.minutes or (_QUICK_MINUTES if args.quick else _MINUTES)
    with tempfile.TemporaryDirectory(prefix="rml-") as name:
        folder = Path(name)
        source, target = (EmbeddedCluster(side, folder / side, overrides=_OVERRIDES) for side in ("source", "target"))
        with running_clusters(source, target):
            found = _copy(source, target, folder, minutes * 60)
    print(json.dumps(found, indent=1), flush=True)
    return {
        "bench": "flat",
        "systems": {"raymirror": found},
        "ratios": {},
        "failed": found["failed"],
        "minutes": minutes,
        "machine": machine(),
    }


def _copy(source: EmbeddedCluster, target: EmbeddedCluster, folder: Path, seconds: float) -> dict[str, Any]:
    """Copy for some time, then prove what both sides still have. Raises BenchError."""
    asyncio.run(create_topic(source.bootstrap_servers, TOPIC, PARTITIONS, _CONFIGS))
    config = folder / "mm2.properties"
    replicas = {"replication.factor": "1", "offset.storage.replication.factor": "1"}
    # The usual copiers of the bench: two on two cores, as the default has it.
    write_config(config, source.bootstrap_servers, target.bootstrap_servers, TOPIC, replicas)
    run_folder = folder / "run"
    run_folder.mkdir()
    mirror = MirrorRun(config, run_folder)
    memory = MemoryWatch(lambda: _processes(mirror))
    with closing(_Ends(source, target)) as ends, ExitStack() as stack:
        stack.callback(mirror.end)
        with _producing(source, folder):
            ends.wait(lambda copied, _: min(copied) > 0, mirror, _FLOWING_S, "records in every partition")
            began_at, before = time.monotonic(), sum(ends.target())
            memory.start()
            while time.monotonic() - began_at < seconds:
                mirror.require_running()
                time.sleep(_POLL_S)
            wall_s, after = time.monotonic() - began_at, ends.target()
            if not min(after):
                raise BenchError("flat", f"no broker told the ends of the copy: {after}")
            records = sum(after) - before
            memory.stop()
        ends.wait(_is_copied, mirror, _DRAIN_S, "the copy of everything")
    proof = _verify(config, mirror)
    return figures(memory, records, wall_s, proof, [gap["text"] for gap in _gaps(mirror)])


def _is_copied(copied: list[int], there: list[int]) -> bool:
    return all(one >= other > 0 for one, other in zip(copied, there, strict=True))


def figures(
    memory: MemoryWatch, records: int, wall_s: float, proof: Mapping[str, Any], gaps: Sequence[str]
) -> dict[str, Any]:
    """Return the figures of a run, and whether it is failed."""
    roles = summarise(memory.readings)
    return {
        "memory": msgspec.to_builtins(roles),
        "records": records,
        "mib_per_s": round(records * RECORD_BYTES / 2**20 / wall_s, 1),
        "wall_s": round(wall_s),
        "proof_whole": proof["whole"],
        "proof_records": sum(lane["records"] for lane in proof["lanes"]),
        "gaps": list(gaps),
        "failed": bool(gaps) or not proof["whole"] or not is_within(roles),
    }


def is_within(roles: Mapping[str, Memory]) -> bool:
    """Whether every role's memory was flat, and no copier took more than it may."""
    copier = roles.get("copier")
    within = copier is not None and copier.peak_mib <= BUDGET_MIB + ABOVE_MIB
    return within and all(role.is_flat for role in roles.values())


class _Ends:
    """The ends of both topics."""

    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
        self._source, self._target = ClusterEnds(source.bootstrap_servers), ClusterEnds(target.bootstrap_servers)

    def target(self) -> list[int]:
        """Read the ends of the copy."""
        return self._target.read(f"source.{TOPIC}", PARTITIONS)

    def wait(self, holds: Callable[[list[int], list[int]], bool], mirror: MirrorRun, most_s: float, what: str) -> None:
        """Wait until something holds of the ends of the copy and of the source. Raises BenchError."""
        give_up_at = time.monotonic() + most_s
        while not holds(self.target(), self._source.read(TOPIC, PARTITIONS)):
            mirror.require_running()
            if time.monotonic() > give_up_at:
                raise BenchError("flat", f"not within {most_s:.0f} s: {what}; {mirror.told()}")
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Disconnect."""
        self._source.close()
        self._target.close()


def _processes(mirror: MirrorRun) -> dict[str, list[psutil.Process]]:
    return {role: mirror.actors(title) for role, title in _ROLES.items()}


def _gaps(mirror: MirrorRun) -> list[dict[str, Any]]:
    """Return what the mirror said of records that it could not copy."""
    return [event for event in mirror.events_since(0) if event["severity"] == "error"]


@contextmanager
def _producing(source: EmbeddedCluster, folder: Path) -> Iterator[None]:
    """Let Kafka's producer tool write as fast as it can during the block. Raises BenchError if it ended before."""
    payloads = write_payload_file(LZ4, folder)
    process = source.popen_tool(
        *(_PRODUCER, "--topic", TOPIC, "--num-records", str(_ENDLESS), "--throughput", "-1"),
        *("--payload-file", str(payloads), "--command-property", f"bootstrap.servers={source.bootstrap_servers}"),
        *("batch.size=65536", "linger.ms=100", f"compression.type={LZ4.codec}"),
        log_file=folder / "producer.log",
    )
    try:
        yield
        if process.poll() is not None:
            log = (folder / "producer.log").read_text(errors="replace")[-1000:]
            raise BenchError("flat", f"the producer ended with {process.returncode}: {log}")
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _verify(config: Path, mirror: MirrorRun) -> dict[str, Any]:
    """Prove what both sides still have; the mirror has ended in order, so its positions are those of the ends."""
    command = (sys.executable, "-m", "actors", "verify", str(config), "--spark", "never", "--json")
    done = subprocess.run(
        command, env=mirror.env, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=_VERIFY_S
    )
    if done.returncode not in (0, 1):
        raise BenchError("flat", f"`verify` ended with {done.returncode}: {done.stderr[-1000:]}")
    (flow,) = json.loads(done.stdout)["flows"]
    return dict(flow)

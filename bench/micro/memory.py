"""Memory of a copier of many log-append partitions: `python -m bench.micro.memory`.

`[--partitions 2000] [--kib 192] [--mib-per-s 2] [--seconds 45]`. A copier re-encodes every batch of a source with
log-append time. One broker on each side; the target's quota for producers slows the copier down, so that it fills all
memory that it may use. The copier is a separate process that owns all lanes before the source has a record. Its
resident memory at that time, and the maximum until the end, are read from /proc.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from bench.figures import machine
from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.core.lane.states import State
from engine.flow.replication.copier import FlowCopier
from tests.harness.load import producer
from tests.harness.mirror import Mirror, lanes_of

_MODULE = "bench.micro.memory"
TOPIC = "stamped"
_BATCH_BYTES = 64 * 1024
_AT_ONCE = 100
_VALUE_BYTES = 1000
_LOOK_S = 0.1
_MIB = 1024 * 1024


def _rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError("no VmRSS in /proc/self/status")


async def _copy(source: str, target: str, partitions: int, seconds: float) -> dict[str, Any]:
    """Own all lanes, report that, and watch the memory for some seconds."""
    mirror = Mirror(_Servers(source), _Servers(target), "memory")  # type: ignore[arg-type]
    mirror.lanes = lanes_of(TOPIC, mirror.copied(TOPIC), partitions)
    async with mirror.run(drain=False) as run:
        drivers = run.copier.drivers
        while not all(one.lane.announced for one in drivers.values()):  # noqa: ASYNC110 - it is the parent that waits
            await asyncio.sleep(0.2)
        await asyncio.sleep(5.0)
        before = _rss_bytes()
        print("owned", flush=True)
        return {"rss_before_mib": round(before / _MIB, 1), **await _look(run.copier, seconds)}


class _Servers:
    """A cluster of which only the servers are known."""

    def __init__(self, servers: str) -> None:
        self.bootstrap_servers = servers


async def _look(copier: FlowCopier, seconds: float) -> dict[str, Any]:
    end_at, peak = time.monotonic() + seconds, dict.fromkeys(("rss", "counted", "queued"), 0)
    while time.monotonic() < end_at:
        await asyncio.sleep(_LOOK_S)
        queued = sum(one.lane.queued_bytes for one in copier.drivers.values())
        found = {"rss": _rss_bytes(), "counted": copier.router.pool.used_bytes, "queued": queued}
        peak = {name: max(peak[name], found[name]) for name in peak}
    progress = copier.progress()
    return {
        "rss_peak_mib": round(peak["rss"] / _MIB, 1),
        "counted_peak_mib": round(peak["counted"] / _MIB, 1),
        "queued_peak_mib": round(peak["queued"] / _MIB, 1),
        "records": progress.records,
        "wire_mib": round(progress.wire_bytes / _MIB, 1),
        "reencoded": sum(one.lane.reencoded for one in copier.drivers.values()),
        "copying": sum(one.lane.state is State.COPYING for one in copier.drivers.values()),
    }


async def _fill(source: EmbeddedCluster, partitions: int, kib: int) -> None:
    """Append a few batches to every partition, some partitions at a time."""
    value = os.urandom(_VALUE_BYTES)
    for _ in range(max(1, kib * 1024 // _BATCH_BYTES)):
        await _append_batches(source, partitions, value)


async def _append_batches(source: EmbeddedCluster, partitions: int, value: bytes) -> None:
    async with producer(source, max_batch_size=_BATCH_BYTES, request_timeout_ms=300_000) as client:
        for first in range(0, partitions, _AT_ONCE):
            sent = []
            for partition in range(first, min(partitions, first + _AT_ONCE)):
                batch = client.create_batch()
                while batch.append(key=b"key", value=value, timestamp=None) is not None:
                    pass
                sent.append(await client.send_batch(batch, TOPIC, partition=partition))
            await asyncio.gather(*sent)


def _throttle(target: EmbeddedCluster, bytes_per_s: int) -> None:
    target.tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", target.bootstrap_servers, "--alter", "--entity-type", "clients", "--entity-default"),
        *("--add-config", f"producer_byte_rate={bytes_per_s}"),
    )


async def _measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    many = {"log.cleaner.enable": "false"}
    source = EmbeddedCluster("source", folder / "source", overrides=many)
    target = EmbeddedCluster("target", folder / "target", overrides=many)
    await asyncio.to_thread(start_clusters, source, target)
    try:
        mirror = Mirror(source, target, "memory")
        await mirror.open()
        await mirror.topic(TOPIC, args.partitions, on_source={"message.timestamp.type": "LogAppendTime"})
        await asyncio.to_thread(_throttle, target, int(args.mib_per_s * _MIB))
        servers = source.bootstrap_servers, target.bootstrap_servers
        order = [str(one) for one in (*servers, args.partitions, args.seconds)]
        child = subprocess.Popen(  # noqa: ASYNC220 - it does not block, and is read from in a thread
            [sys.executable, "-m", _MODULE, "--copy", *order], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert (await asyncio.to_thread(child.stdout.readline)).strip() == b"owned"
        await _fill(source, args.partitions, args.kib)
        rest = await asyncio.to_thread(child.stdout.read)
        assert await asyncio.to_thread(child.wait) == 0
        return dict(json.loads(rest.splitlines()[-1]))
    finally:
        for cluster in (source, target):
            await asyncio.to_thread(cluster.stop)


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.memory")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--kib", type=int, default=192)
    parser.add_argument("--mib-per-s", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--copy", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.copy:
        source, target, partitions, seconds = args.copy
        print(json.dumps(uvloop.run(_copy(source, target, int(partitions), float(seconds)))))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(_measure(Path(folder), args))
    said = {"partitions": args.partitions, "kib_each": args.kib, "target_mib_per_s": args.mib_per_s}
    print(json.dumps({"bench": "micro.memory", "machine": machine(), **said, "budget_mib": 64, **found}))


if __name__ == "__main__":
    main()

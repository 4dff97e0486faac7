"""The demo's load: Kafka's own ProducerPerformance, one process per stream, each with its codec."""

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import MirrorError

TOOL = "org.apache.kafka.tools.ProducerPerformance"
PAYLOADS = 2000  # different JSON lines; the tool takes one at random per record
QUICK_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # the process is short: no optimising compiler
HEAP_MIB = 128


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the producer tool. `per_s` = -1: as fast as possible; `size_bytes` = 0: JSON lines."""

    topic: str
    codec: str
    records: int
    per_s: int = -1
    size_bytes: int = 0


TOPICS = {"orders": 4, "clicks": 4, "logs": 2}

# With the live load and the late topic 496,000 records: one wave of Spark's proof takes 500,000 at most.
BACKLOG = (
    Stream(topic="orders", codec="lz4", records=70_000),
    Stream(topic="orders", codec="zstd", records=60_000),
    Stream(topic="clicks", codec="gzip", records=60_000),
    Stream(topic="clicks", codec="snappy", records=60_000),
    Stream(topic="logs", codec="none", records=60_000, size_bytes=120),
)

LIVE = (
    Stream(topic="orders", codec="lz4", records=60_000, per_s=10_000),
    Stream(topic="clicks", codec="zstd", records=60_000, per_s=10_000),
    Stream(topic="logs", codec="none", records=60_000, per_s=10_000, size_bytes=120),
)


class LoadFailed(MirrorError):
    """A producer process failed."""

    exit_code = 1  # it ran and failed: not bad input

    def __init__(self, stream: str, code: int, log_file: str) -> None:
        super().__init__(stream, code, log_file)
        self.stream, self.code, self.log_file = stream, code, log_file

    def __str__(self) -> str:
        return f"the producer tool for {self.stream} ended with code {self.code}; its output is in {self.log_file}"


class Load:
    """Running producer processes; `stop` ends those that still run."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._payloads = folder / "payloads.jsonl"
        self._running: list[tuple[Stream, subprocess.Popen[bytes], Path]] = []

    def start(self, streams: Sequence[Stream]) -> None:
        """Start these streams. Raises ClusterError."""
        if not self._payloads.exists():
            write_payloads(self._payloads)
        for stream in streams:
            log_file = self._folder / f"producer-{stream.topic}-{stream.codec}-{stream.per_s}.log"
            process = self._cluster.popen_tool(
                TOOL, *self._arguments(stream), log_file=log_file, heap_mib=HEAP_MIB, flags=QUICK_FLAGS
            )
            self._running.append((stream, process, log_file))

    def is_done(self) -> bool:
        """Whether every stream has ended. Raises LoadFailed if one failed."""
        for stream, process, log_file in self._running:
            code = process.poll()
            if code:
                raise LoadFailed(f"{stream.topic} ({stream.codec})", code, str(log_file))
        return all(process.returncode is not None for _, process, _ in self._running)

    def stop(self) -> None:
        """Kill the processes that still run; a second call does nothing."""
        for _, process, _ in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _arguments(self, stream: Stream) -> list[str]:
        content = (
            ["--record-size", str(stream.size_bytes)] if stream.size_bytes else ["--payload-file", str(self._payloads)]
        )
        properties = {
            "bootstrap.servers": self._cluster.bootstrap_servers,
            "compression.type": stream.codec,
            "batch.size": "65536",
            "linger.ms": "20",
        }
        # one flag with many values: if a flag is repeated, the tool takes the last one
        options = ["--command-property", *(f"{key}={value}" for key, value in properties.items())]
        count = ["--num-records", str(stream.records), "--throughput", str(stream.per_s)]
        return ["--topic", stream.topic, *count, *content, *options]


def write_payloads(path: Path) -> None:
    """Write JSON lines that compress as such lines do."""
    rng = random.Random(7)
    words = ("pending", "paid", "shipped", "returned", "lost", "found")
    with path.open("w") as file:
        for number in range(PAYLOADS):
            row = {"id": rng.randrange(10**9), "seq": number, "state": rng.choice(words), "total": rng.random() * 900}
            file.write(json.dumps({**row, "note": " ".join(rng.choices(words, k=4))}) + "\n")

"""Backlogs on the source cluster: written by Kafka's own producer tool, counted from the log itself."""

import base64
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from deploy.local.cluster import EmbeddedCluster

RECORD_BYTES = 921
"""0.9 KiB, every record of the same size: the logical volume is exact, not an estimate."""
CONSTANT_BYTES, SMALL_BYTES = 1000, 100
_PAYLOAD_LINES = 20_000
"""The tool draws lines at random; with 70 records in a batch, one batch in eight holds a line twice."""
_PRODUCE_TIMEOUT_S = 600
_EVENTS = ("order.created", "order.paid", "order.shipped", "cart.updated", "session.opened", "payment.refused")
_COUNTRIES = ("DE", "FR", "GB", "US", "BR", "IN", "JP", "ZA")


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of which records are drawn: the same ones in every run, all of the same size."""

    seed: str
    make: Callable[[random.Random], str]
    record_bytes: int = RECORD_BYTES
    different: int = _PAYLOAD_LINES


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of records: its name in the output, its lines, the codec and the batches of the producer."""

    name: str
    codec: str
    lines: Lines
    batch_bytes: int = 65536
    """`batch.size` of the producer; 0: every record is a batch."""


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """A filled topic: what every run has to copy."""

    payload: str
    codec: str
    topic: str
    counts: tuple[int, ...]
    batches: int
    wire_bytes: int
    record_bytes: int = RECORD_BYTES

    @classmethod
    def short(cls, topic: str, partitions: int = 1, records: int = 0) -> Self:
        """A backlog of short records, so many in each partition: for benches that do not measure the copy."""
        counts = (records,) * partitions
        return cls(payload="", codec="none", topic=topic, counts=counts, batches=partitions, wire_bytes=0)

    @property
    def partitions(self) -> int:
        return len(self.counts)

    @property
    def records(self) -> int:
        return sum(self.counts)

    @property
    def logical_bytes(self) -> int:
        return self.records * self.record_bytes


def json_line(rng: random.Random) -> str:
    """A record as services write them: repeated field names and small vocabularies around ids that do not compress."""
    record = {
        "event": rng.choice(_EVENTS),
        "id": f"{rng.getrandbits(128):032x}",
        "trace": f"{rng.getrandbits(128):032x}",
        "customer": {"id": rng.randrange(10**8), "country": rng.choice(_COUNTRIES), "vip": rng.random() < 0.1},
        "at": f"2026-03-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00Z",
        "amount": round(rng.random() * 1000, 2),
        "lines": [
            {"sku": f"SKU-{rng.randrange(10**6):06d}", "quantity": rng.randrange(1, 9), "price": rng.randrange(10**5)}
            for _ in range(5)
        ],
        "signature": base64.b64encode(rng.randbytes(96)).decode(),
        "note": "",
    }
    rest = RECORD_BYTES - len(json.dumps(record))
    record["note"] = base64.b64encode(rng.randbytes(rest)).decode()[:rest]
    return json.dumps(record)


def noise_line(rng: random.Random) -> str:
    """Base64 of random bytes: no LZ codec finds a match, and the tool's line format can carry it."""
    return base64.b64encode(rng.randbytes(RECORD_BYTES)).decode()[:RECORD_BYTES]


def constant_line(_: random.Random) -> str:
    """One constant record of 1,000 bytes, a repeated word: the payload of Redpanda Connect's migrator bench."""
    return ("REDPANDA_" * CONSTANT_BYTES)[:CONSTANT_BYTES]


def small_line(rng: random.Random) -> str:
    """A record of 100 bytes as services write small ones: an event, two ids that do not compress, a number."""
    record = f'{{"event":"{rng.choice(_EVENTS)}","id":"{rng.getrandbits(128):032x}","n":{rng.randrange(10**6)},"of":"'
    rest = SMALL_BYTES - len(record) - 2
    return record + f"{rng.getrandbits(256):064x}"[:rest] + '"}'


JSON = Lines(seed="lz4", make=json_line)
NOISE = Lines(seed="incompressible", make=noise_line)
CONSTANT = Lines(seed="constant", make=constant_line, record_bytes=CONSTANT_BYTES, different=1)
SMALL = Lines(seed="small", make=small_line, record_bytes=SMALL_BYTES)

LZ4 = Payload(name="lz4", codec="lz4", lines=JSON)
INCOMPRESSIBLE = Payload(name="incompressible", codec="none", lines=NOISE)


def write_payload_file(payload: Payload, folder: Path) -> Path:
    """Write the lines that the producer tool draws from; the same lines in every run."""
    rng = random.Random(payload.lines.seed)
    file = folder / f"payload-{payload.name}.txt"
    file.write_text("".join(payload.lines.make(rng) + "\n" for _ in range(payload.lines.different)))
    return file


def fill(cluster: EmbeddedCluster, payload: Payload, topic: str, *, partitions: int, mib: int, folder: Path) -> Backlog:
    """Write `mib` MiB of records (uncompressed) to an existing topic, and count what is there.

    The cluster has one broker.
    """
    records = produce(cluster, payload, topic, mib=mib, folder=folder)
    backlog = read_backlog(cluster.bootstrap_servers, payload, topic, partitions)
    if backlog.records != records:
        raise BenchError("dataset", f"{backlog.records} records in {topic}, {records} were sent")
    return backlog


def produce(cluster: EmbeddedCluster, payload: Payload, topic: str, *, mib: int, folder: Path) -> int:
    """Write `mib` MiB of records (uncompressed) to an existing topic; return how many they are."""
    records = mib * 1024 * 1024 // payload.lines.record_bytes
    log_file = folder / f"producer-{payload.name}.log"
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "batch.size": str(payload.batch_bytes),
        "linger.ms": "100",
        "compression.type": payload.codec,
        "buffer.memory": "134217728",
        "acks": "all",
        # A slow broker must not let records expire that wait in the buffer: the tool ends with 0 then.
        "delivery.timeout.ms": str(_PRODUCE_TIMEOUT_S * 1000),
        "max.block.ms": str(_PRODUCE_TIMEOUT_S * 1000),
    }
    arguments = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
    arguments += ["--payload-file", str(write_payload_file(payload, folder))]
    # One flag for all settings: of several flags the tool takes the last.
    arguments += ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    tool = "org.apache.kafka.tools.ProducerPerformance"
    process = cluster.popen_tool(tool, *arguments, log_file=log_file, heap_mib=1024)
    try:
        code = process.wait(_PRODUCE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise BenchError("dataset", f"{records} records not written within {_PRODUCE_TIMEOUT_S} s") from None
    finally:
        process.kill()
        process.wait()
    if code:
        raise BenchError("dataset", f"the producer tool ended with {code}: {log_file.read_text()[-1500:]}")
    return records


def read_backlog(address: str, payload: Payload, topic: str, partitions: int) -> Backlog:
    """Count a topic from its batch headers."""
    with KafkaPeek(address) as peek:
        counts = [peek.count(topic, partition) for partition in range(partitions)]
    return Backlog(
        payload=payload.name,
        codec=payload.codec,
        topic=topic,
        counts=tuple(count.records for count in counts),
        batches=sum(count.batches for count in counts),
        wire_bytes=sum(count.wire_bytes for count in counts),
        record_bytes=payload.lines.record_bytes,
    )

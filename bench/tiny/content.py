"""Compares the records of two topics, partition by partition, as a consumer of librdkafka reads them.

A checksum is of every record in order: its key, its value, its time and its headers. So a record that is missing, there
twice, changed or in another place changes it.
"""

import time
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bench.dataset import Backlog
from bench.errors import BenchError
from bench.systems.launch import Job

_AT_ONCE = 10_000
_POLL_S = 1.0
_SILENT_S = 60.0


class Content(msgspec.Struct, frozen=True):
    """The records of a partition: how many, and a checksum of them in order."""

    records: int
    checksum: int


_EMPTY = Content(0, 0)


def content(messages: Iterable[Any], before: Content = _EMPTY) -> Content:
    """Return the content of a partition that goes on with these messages of librdkafka."""
    records, checksum = before.records, before.checksum
    for message in messages:
        key, value, headers = message.key(), message.value(), message.headers()
        head = f"{None if key is None else len(key)} {None if value is None else len(value)} {message.timestamp()}"
        checksum = zlib.crc32(f"{head} {headers or None}|".encode(), checksum)
        checksum = zlib.crc32(value or b"", zlib.crc32(key or b"", checksum))
        records += 1
    return Content(records, checksum)


def read_content(address: str, topic: str, partitions: int) -> list[Content]:
    """Read a topic from its start to its end. Raises BenchError if the broker is silent or refuses."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings: Any = {
        "bootstrap.servers": address,
        "group.id": "bench-content",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        found, reading = [_EMPTY] * partitions, set(range(partitions))
        heard_s = time.monotonic()
        while reading:
            messages = consumer.consume(_AT_ONCE, _POLL_S)
            if messages:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _SILENT_S:
                raise BenchError("content", f"{topic}: silent for {_SILENT_S:.0f} s, partitions {sorted(reading)}")
            records: dict[Any, list[Any]] = {}
            for message in messages:
                error = message.error()
                if error is None:
                    records.setdefault(message.partition(), []).append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    reading.discard(message.partition())
                else:
                    raise BenchError("content", f"{topic}: {error}")
            for number, of_partition in records.items():
                found[number] = content(of_partition, found[number])
        return found
    finally:
        consumer.close()


def difference(copy: Sequence[Content], original: Sequence[Content]) -> str:
    """Return the first partition in which a copy differs, and how; empty if none does."""
    for partition, (theirs, ours) in enumerate(zip(copy, original, strict=True)):
        if theirs.records != ours.records:
            return f"partition {partition} has {theirs.records} records, the source {ours.records}"
        if theirs.checksum != ours.checksum:
            return f"partition {partition} has other records, or in another order, than the source"
    return ""


class ContentVerdict:
    """Judges copies by the content of their source."""

    def __init__(self) -> None:
        self._original: list[Content] = []

    def note(self, backlog: Backlog, source: str) -> None:
        """Read a new backlog, which copies will be compared with."""
        self._original = read_content(source, backlog.topic, backlog.partitions)

    def judge(self, system: str, job: Job) -> None:
        """Compare a finished copy; raises BenchError if it differs."""
        copy = read_content(job.target, job.target_topic, job.backlog.partitions)
        if wrong := difference(copy, self._original):
            raise BenchError(system, f"{job.target_topic}: {wrong}: no figure")

"""The load: numbered records at a steady rate, spread evenly over all partitions, by librdkafka's idempotent producer.

A process: `python -m bench.story.load SPEC`. It prints `{"started": UNIX TIME}` after the first acknowledgement.
It ends in order when a line `end` comes, or when the file `gate` exists, which a fence makes: it waits for every
acknowledgement. A line `crash` ends it at once, as its machine would end with its cluster. It prints a `Stint` last.
The file `alive` exists while it may write.
"""

import json
import select
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.recovery.records import encode_record
from bench.story.judging import Stint

_TICK_S = 0.02
_FLUSH_S = 120.0


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Records per second in all, over the partitions of a topic; `first`: the number of the first of each partition."""

    bootstrap: str
    topic: str
    partitions: int
    per_s: int
    first: int
    gate: str
    alive: str


class Load:
    """The producer, with the numbers that it has sent and that were acknowledged."""

    def __init__(self, spec: LoadSpec, producer: Any) -> None:
        self._spec, self._producer = spec, producer
        self._offered = dict.fromkeys(range(spec.partitions), spec.first)
        self._acknowledged = dict(self._offered)
        self._turn = 0
        self.answered_s = 0.0
        """When the last record was acknowledged."""
        self.failed: list[str] = []

    @property
    def stint(self) -> Stint:
        """What was written so far."""
        return Stint(
            first=self._spec.first,
            acknowledged=dict(self._acknowledged),
            offered=dict(self._offered),
            ended_s=self.answered_s,
        )

    @property
    def has_started(self) -> bool:
        """Whether something was acknowledged."""
        return any(end > self._spec.first for end in self._acknowledged.values())

    def send(self, count: int) -> None:
        """Send so many records in turn over the partitions."""
        for _ in range(count):
            partition = self._turn % self._spec.partitions
            self._turn += 1
            number = self._offered[partition]
            self._offered[partition] = number + 1
            self._producer.produce(
                self._spec.topic,
                encode_record(partition, number),
                partition=partition,
                on_delivery=lambda error, _message, at=partition, which=number: self._answered(error, at, which),
            )

    def _answered(self, error: object, partition: int, number: int) -> None:
        if error is not None:
            self.failed.append(f"record {number} of partition {partition}: {error}")
        else:
            self._acknowledged[partition] = max(self._acknowledged[partition], number + 1)
            self.answered_s = time.time()


def run(spec: LoadSpec, producer: Any) -> None:
    """Write until told to end. Raises RuntimeError if a record was refused, or not acknowledged in time."""
    load, gate, began_s, sent, has_told = Load(spec, producer), Path(spec.gate), time.monotonic(), 0, False
    while not gate.exists():
        word = _word()
        if word == "crash":
            print(msgspec.json.encode(load.stint).decode(), flush=True)
            return
        if word == "end":
            break
        due = int((time.monotonic() - began_s) * spec.per_s)
        load.send(min(due - sent, spec.per_s))
        sent = due  # no burst for lost time beyond a second
        producer.poll(0)
        if load.has_started and not has_told:
            has_told = True
            print(json.dumps({"started": load.answered_s}), flush=True)
        time.sleep(_TICK_S)
    left = producer.flush(_FLUSH_S)
    if left or load.failed:
        raise RuntimeError(f"{left} records not acknowledged; refused: {load.failed[:3]}")
    if not has_told:
        print(json.dumps({"started": load.answered_s}), flush=True)
    print(msgspec.json.encode(load.stint).decode(), flush=True)


def _word() -> str:
    """Return the next line of standard input; empty if there is none yet."""
    return sys.stdin.readline().strip() if select.select([sys.stdin], [], [], 0)[0] else ""


def main(spec: LoadSpec) -> None:
    """Run one stint."""
    from confluent_kafka import Producer

    alive = Path(spec.alive)
    alive.touch()
    try:
        settings = {"bootstrap.servers": spec.bootstrap, "enable.idempotence": True, "linger.ms": 20}
        run(spec, Producer(settings))
    finally:
        alive.unlink(missing_ok=True)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=LoadSpec))

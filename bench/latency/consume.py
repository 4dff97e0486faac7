"""The consumer: a process with librdkafka's consumer, which notes when each record of a run arrives.

`python -m bench.latency.consume PLAN` prints `{"ready": true}` when it has read something of every partition, and then
one object with the quantiles of the times from sending to arrival, of the records after the warm-up.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from bench.latency.judge import judge
from bench.latency.stamped import Plan, decode

_POLL_S = 0.1
_READY_S = 60.0
_SILENT_S = 30.0
"""A run in which nothing arrives for so long is over; what is missing shows in its figures."""


def arrivals(plan: Plan, consumer: Any) -> Iterator[tuple[int, int, int]]:
    """Yield partition, value's number and nanoseconds from sending to arrival, until all records are there."""
    left, heard_s = plan.records, time.monotonic()
    while left and time.monotonic() - heard_s < _SILENT_S:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        arrived_ns = time.monotonic_ns()
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
        stamp = decode(message.value())
        heard_s = arrived_ns / 1e9
        if stamp is not None:
            left -= 1
            yield message.partition(), stamp[0], arrived_ns - stamp[1]


def wait_ready(plan: Plan, consumer: Any) -> None:
    """Wait until something of every partition was read: each has a first record. Raises TimeoutError."""
    waiting = set(range(plan.partitions))
    give_up_s = time.monotonic() + _READY_S
    while waiting:
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            waiting.discard(message.partition())
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"nothing read of partitions {sorted(waiting)} of {plan.topic}")


def consume(plan: Plan, consumer: Any) -> dict[str, Any]:
    """Read the whole run; return its figures. The file of samples has nanoseconds by number, -1 for a lost record."""
    took_ns = np.zeros(plan.records, dtype=np.int64)
    seen = np.zeros(plan.records, dtype=np.int64)
    newest = [-1] * plan.partitions
    reordered = 0
    for partition, number, nanoseconds in arrivals(plan, consumer):
        seen[number] += 1
        took_ns[number] = nanoseconds
        reordered += number <= newest[partition]
        newest[partition] = max(newest[partition], number)
    if plan.samples:
        np.save(plan.samples, np.where(seen > 0, took_ns, -1))
    return judge(plan, took_ns, seen, reordered)


def main() -> None:
    """Run one plan."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    settings = {
        "bootstrap.servers": plan.bootstrap,
        "group.id": "bench-latency",
        "enable.auto.commit": False,
        "socket.nagle.disable": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(plan.topic, number, OFFSET_BEGINNING) for number in range(plan.partitions)])
    wait_ready(plan, consumer)
    print(json.dumps({"ready": True}), flush=True)
    print(json.dumps(consume(plan, consumer)), flush=True)
    consumer.close()


if __name__ == "__main__":
    main()

"""Both ends of a run: the processes of producer and consumers, and the first records of a topic."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.latency.stamped import Plan
from bench.watch import START_TIMEOUT_S

PRODUCE, CONSUME = "bench.latency.produce", "bench.latency.consume"
_LOOK_S = 0.05
_PATIENCE_S = 60.0


async def send_first_records(address: str, topic: str, partitions: int) -> None:
    """Write a record into each partition: when it has arrived, the system copies that partition."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for partition in range(partitions):
            await producer.send_and_wait(topic, b"first", partition=partition)


def wait_copied(system: str, plan: Plan) -> None:
    """Wait until every partition that will be read holds something. Raises BenchError."""
    give_up_s = time.monotonic() + START_TIMEOUT_S
    with KafkaPeek(plan.bootstrap) as peek:
        while not all(peek.end_offsets(plan.topic, plan.partitions)):
            if time.monotonic() > give_up_s:
                raise BenchError(system, f"no record in some partition of {plan.topic}")
            time.sleep(_LOOK_S)


@contextlib.contextmanager
def running_end(module: str, plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """Run one end of the run as a process."""
    command = (sys.executable, "-m", module, msgspec.json.encode(plan).decode())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        yield process
        process.wait(_PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def read_line(system: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Read the next object that an end prints. Raises BenchError if it ends without one."""
    assert process.stdout is not None, "its output is a pipe"
    line = process.stdout.readline()
    if not line:
        raise BenchError(system, f"{process.args!r} ended with {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found

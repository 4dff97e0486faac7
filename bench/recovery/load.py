"""The load: numbered records at a steady rate, spread evenly over all partitions, by aiokafka's idempotent producer.

A process: `python -m bench.recovery.load SPEC`. It prints `{"started": ...}` after the first acknowledgement. Lines on
its standard input: `partitions N` (more partitions from now on), `end` (wait for every acknowledgement, print
`{"sent": {partition: records}}`, and exit). A partition whose source does not answer gets nothing new until it
answers: then the load continues at its rate, without a burst.
"""

import asyncio
import json
import sys
import time
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from bench.recovery.records import encode_record

TICK_S = 0.05
TICKS_PER_BATCH = 2
"""Each partition gets a batch every second tick, half of them in each."""
MOST_WAITING = 20
"""Batches of one partition without acknowledgement, beyond which it gets nothing new."""
REQUEST_TIMEOUT_MS = 180_000
"""Longer than any fault lasts: a batch that expires would leave a hole in the idempotent sequence."""


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The load: records per second in all, over the partitions of a topic. `first`: the number of the first record of
    those of the `partitions` that have records already.
    """

    bootstrap: str
    topic: str
    partitions: int
    per_s: int
    first: int = 0


class Load:
    """The producer, with the next number and the unanswered batches of each partition."""

    def __init__(self, spec: LoadSpec, producer: Any) -> None:
        self._spec, self._producer = spec, producer
        self._per_batch = spec.per_s * TICK_S * TICKS_PER_BATCH / spec.partitions
        self.partitions = spec.partitions
        self.ending = asyncio.Event()
        self._next = dict.fromkeys(range(spec.partitions), spec.first) if spec.first else {}
        self._owed: dict[int, float] = {}
        self._waiting: dict[int, set[asyncio.Future[Any]]] = {}

    async def run(self) -> dict[int, int]:
        """Write until `ending`; return the number of records of each partition, all acknowledged."""
        began_at, tick = time.monotonic(), 0
        while not self.ending.is_set():
            for partition in range(tick % TICKS_PER_BATCH, self.partitions, TICKS_PER_BATCH):
                await self._feed(partition)
            tick += 1
            if tick == TICKS_PER_BATCH:
                await asyncio.gather(*(future for waiting in self._waiting.values() for future in waiting))
                print(json.dumps({"started": time.monotonic()}), flush=True)
            due_at = began_at + tick * TICK_S
            late_s = time.monotonic() - due_at
            if late_s > 1.0:
                began_at += late_s  # no burst for lost time
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
        await asyncio.gather(*(future for waiting in self._waiting.values() for future in waiting))
        return self._next

    async def widen(self, partitions: int) -> None:
        """Write to more partitions, after the producer knows them."""
        while len(await self._producer.partitions_for(self._spec.topic)) < partitions:
            await self._producer.client.force_metadata_update()
        self.partitions = partitions

    async def _feed(self, partition: int) -> None:
        waiting = self._waiting.setdefault(partition, set())
        if len(waiting) >= MOST_WAITING:
            return
        owed = self._owed.get(partition, 0.0) + self._per_batch
        count, number = int(owed), self._next.get(partition, 0)
        self._owed[partition] = owed - count
        if not count:
            return
        batch = self._producer.create_batch()
        for place in range(count):
            if batch.append(key=None, value=encode_record(partition, number + place), timestamp=None) is None:
                raise ValueError(f"a batch does not hold {count} records: the rate is too high for so few partitions")
        batch.close()
        future = await self._producer.send_batch(batch, self._spec.topic, partition=partition)
        self._next[partition] = number + count
        waiting.add(future)
        future.add_done_callback(waiting.discard)


async def main(spec: LoadSpec) -> None:
    """Write until a line says `end`."""
    producer = AIOKafkaProducer(
        bootstrap_servers=spec.bootstrap,
        acks="all",
        enable_idempotence=True,
        max_batch_size=1024 * 1024,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        metadata_max_age_ms=5_000,
    )
    await producer.start()
    try:
        load = Load(spec, producer)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(_listen(reader, load))
            sent = await load.run()
            listening.cancel()
    finally:
        await producer.stop()
    print(json.dumps({"sent": sent}), flush=True)


async def _listen(reader: asyncio.StreamReader, load: Load) -> None:
    while line := (await reader.readline()).decode().split():
        match line:
            case ["partitions", count]:
                await load.widen(int(count))
            case ["end"]:
                load.ending.set()
    load.ending.set()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=LoadSpec)))

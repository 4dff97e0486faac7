"""The load: every number once and in order, evenly, with bounded unacknowledged batches."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from bench.recovery.load import MOST_WAITING, Load, LoadSpec
from bench.recovery.records import decode_record


class Batch:
    def __init__(self) -> None:
        self.values: list[bytes] = []

    def append(self, *, key: bytes | None, value: bytes, timestamp: int | None) -> object:
        self.values.append(value)
        return object()

    def close(self) -> None:
        pass


class Producer:
    """Answers at once, except for partitions that are `away`."""

    def __init__(self, *, away: frozenset[int] = frozenset()) -> None:
        self.away = away
        self.batches: defaultdict[int, list[list[int]]] = defaultdict(list)
        self.unanswered: list[asyncio.Future[Any]] = []
        self.after_batch: Callable[[], None] = lambda: None

    def create_batch(self) -> Batch:
        return Batch()

    async def send_batch(self, batch: Batch, topic: str, *, partition: int) -> asyncio.Future[Any]:
        ids = [decode_record(value) for value in batch.values]
        assert {where for where, _ in ids} == {partition}
        self.batches[partition].append([number for _, number in ids])
        future = asyncio.get_running_loop().create_future()
        if partition in self.away:
            self.unanswered.append(future)
        else:
            future.set_result(None)
        self.after_batch()
        return future


def spec(partitions: int) -> LoadSpec:
    return LoadSpec(bootstrap="", topic="load", partitions=partitions, per_s=partitions * 25)


async def test_numbers_go_up_by_one_and_partitions_get_alike() -> None:
    producer = Producer()
    load = Load(spec(4), producer)
    producer.after_batch = lambda: load.ending.set() if len(producer.batches[3]) == 4 else None
    sent = await load.run()
    for partition, batches in producer.batches.items():
        assert [number for batch in batches for number in batch] == list(range(sent[partition]))
        assert {len(batch) for batch in batches} <= {2, 3}, "2.5 records in the mean"
    assert max(sent.values()) - min(sent.values()) <= 3


async def test_a_partition_that_does_not_answer_gets_nothing_new() -> None:
    producer = Producer(away=frozenset({1}))
    load = Load(spec(2), producer)
    for _ in range(3 * MOST_WAITING):
        await load._feed(0)
        await load._feed(1)
        await asyncio.sleep(0)
    assert len(producer.batches[1]) == MOST_WAITING
    assert len(producer.batches[0]) == 3 * MOST_WAITING
    for future in producer.unanswered:
        future.set_result(None)
    await asyncio.sleep(0)
    await load._feed(1)
    assert producer.batches[1][-1][0] == producer.batches[1][-2][-1] + 1, "it goes on where it was"

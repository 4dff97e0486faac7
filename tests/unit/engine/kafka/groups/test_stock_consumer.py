"""What the stock consumers of a drill do with what aiokafka's consumer gives them."""

import asyncio
from threading import Event
from typing import Any, ClassVar

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaConnectionError, OffsetOutOfRangeError

from engine.kafka.groups import stock_consumer
from engine.kafka.groups.stock_consumer import ConsumerPlan, FirstRead, Reads, digest_of
from policies.dr.drill import SeenRecord
from policies.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class FakeRecord:
    """A record as aiokafka has it."""

    def __init__(self, value: bytes | None, *, timestamp_type: int = 0) -> None:
        self.key, self.value, self.timestamp, self.timestamp_type = b"k", value, 5, timestamp_type
        self.headers = (("h", b"x"),)


class FakeConsumer:
    """A consumer of some records; `outside`: partitions whose commit is out of range."""

    records: ClassVar[dict[KafkaPartition, list[FakeRecord]]] = {}
    outside: ClassVar[set[KafkaPartition]] = set()
    silent: ClassVar[set[KafkaPartition]] = set()
    start_fails: ClassVar[Exception | None] = None
    made: ClassVar[list["FakeConsumer"]] = []

    def __init__(self, **options: Any) -> None:
        self.options, self.stopped, self.paused = options, False, set[KafkaPartition]()
        FakeConsumer.made.append(self)

    async def start(self) -> None:
        if FakeConsumer.start_fails is not None:
            raise FakeConsumer.start_fails

    async def stop(self) -> None:
        self.stopped = True

    def assign(self, partitions: list[KafkaPartition]) -> None:
        self.assigned = partitions

    def pause(self, one: KafkaPartition) -> None:
        self.paused.add(one)

    def last_stable_offset(self, one: KafkaPartition) -> int | None:
        return None if one in FakeConsumer.silent else 10

    async def getmany(self, *partitions: KafkaPartition, timeout_ms: int, max_records: int) -> Any:
        await asyncio.sleep(timeout_ms / 1000)
        bad = {one: 7 for one in partitions if one in FakeConsumer.outside}
        if bad:
            raise OffsetOutOfRangeError(bad)
        return {one: FakeConsumer.records[one] for one in partitions if one in FakeConsumer.records}


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock_consumer, "AIOKafkaConsumer", FakeConsumer)
    for name in ("records", "outside", "silent", "made"):
        monkeypatch.setattr(FakeConsumer, name, type(getattr(FakeConsumer, name))())
    monkeypatch.setattr(FakeConsumer, "start_fails", None)


async def read(*plans: ConsumerPlan, stop: Event | None = None) -> Reads:
    return await stock_consumer._read_all(plans, {"bootstrap_servers": "b:1"}, 30.0, stop or Event())


PLAN = ConsumerPlan(group="g", partitions=(T0, T1, T2))


async def test_each_partition_has_its_first_record_or_its_end() -> None:
    FakeConsumer.records = {
        KafkaPartition(*T0): [FakeRecord(b"1"), FakeRecord(b"2")],
        KafkaPartition(*T1): [FakeRecord(None, timestamp_type=1)],
    }
    seen = SeenRecord(key=b"k", digest=digest_of(b"1"), timestamp_ms=5, headers=((b"h", b"x"),))
    unset = SeenRecord(key=b"k", digest=None, timestamp_ms=-1, headers=((b"h", b"x"),))
    assert await read(PLAN) == {
        ("g", T0): FirstRead(record=seen),
        ("g", T1): FirstRead(record=unset),
        ("g", T2): FirstRead(),
    }
    (consumer,) = FakeConsumer.made
    assert consumer.stopped
    assert {KafkaPartition(*one) for one in PLAN.partitions} == consumer.paused
    asked = {name: consumer.options[name] for name in ("group_id", "enable_auto_commit", "auto_offset_reset")}
    assert asked == {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "none"}
    assert consumer.options["isolation_level"] == "read_committed"


async def test_a_commit_outside_of_the_log_fails_alone() -> None:
    FakeConsumer.records = {KafkaPartition(*T0): [FakeRecord(b"1")]}
    FakeConsumer.outside = {KafkaPartition(*T1)}
    found = await read(PLAN)
    assert "outside of the log" in found["g", T1].failed
    assert found["g", T0].record is not None
    assert found["g", T2] == FirstRead()


async def test_a_consumer_that_cannot_start_fails_in_all_its_partitions_and_no_other_consumer_does() -> None:
    FakeConsumer.start_fails = KafkaConnectionError("no broker")
    found = await read(PLAN, ConsumerPlan(group="h", partitions=(T0,)))
    assert len(found) == 4
    assert all("no broker" in one.failed for one in found.values())
    assert all(one.stopped for one in FakeConsumer.made)


async def test_a_partition_that_never_answers_is_given_up() -> None:
    FakeConsumer.silent = {KafkaPartition(*T2)}
    found = await read(PLAN)
    assert found["g", T0] == FirstRead()
    assert "no answer within 30 s" in found["g", T2].failed


async def test_it_ends_early_when_it_is_told_to() -> None:
    stop = Event()
    FakeConsumer.silent = {KafkaPartition(*one) for one in PLAN.partitions}
    asyncio.get_running_loop().call_later(1.0, stop.set)
    async with asyncio.timeout(5.0):
        assert await read(PLAN, PLAN, stop=stop) == {}

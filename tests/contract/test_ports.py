"""Answers of a target to appends, and the promises of fencing: the same cases on the fake and on a real broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from engine.base.clock import wall_ms
from engine.base.errors import KafkaRefusal
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.position.position import SEQUENCE_SPAN
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import Producer
from engine.wire.batch import read_header, restamp
from engine.wire.merging.merge import merge
from engine.wire.records import Record, encode_batch
from policies.model import TopicPartition
from tests.contract.stage import BORN_MS, Stage, batch, send

pytestmark = pytest.mark.contract

K = OutcomeKind
_LATEST = -1


class Writer:
    """One partition, a connection to its leader, and a producer behind its barrier."""

    def __init__(self, stage: Stage, where: TopicPartition, producer: Producer) -> None:
        self.stage, self.where, self.producer = stage, where, producer

    async def open(self) -> None:
        """Connect to the leader."""
        leader = (await self.stage.port.leaders([self.where]))[self.where]
        self.broker = await self.stage.port.target_broker(leader.node)

    async def append(self, sequence: int, count: int = 2) -> tuple[OutcomeKind, int, int]:
        """Append one batch: kind, error code, base offset."""
        return told(await self.ask(batch(self.producer, sequence, count)))

    async def ask(self, payload: bytearray, where: TopicPartition | None = None) -> Outcome:
        """Append these bytes."""
        (outcome,) = await send(self.broker, (where or self.where, payload))
        return outcome

    async def end(self) -> int:
        """Return the high watermark."""
        return (await self.stage.port.offsets([self.where], _LATEST))[self.where]


def told(outcome: Outcome) -> tuple[OutcomeKind, int, int]:
    return outcome.kind, outcome.error_code, outcome.base_offset


def appended(base: int) -> tuple[OutcomeKind, int, int]:
    return K.APPENDED, 0, base


def refused(kind: OutcomeKind, code: int) -> tuple[OutcomeKind, int, int]:
    return kind, code, -1


@asynccontextmanager
async def writing(
    stage: Stage, configs: dict[str, str] | None = None, *, barrier: bool = True
) -> AsyncIterator[Writer]:
    """Open a writer: its barrier is offset 0. Without it, the producer is unknown to the partition."""
    first = await stage.target(configs)
    other = TopicPartition(first.topic, 1)
    producer = await stage.port.acquire(f"{stage.name}-id", [first if barrier else other])
    writer = Writer(stage, first, producer)
    await writer.open()
    try:
        yield writer
    finally:
        await writer.broker.close()


# --- sequences ------------------------------------------------------------------------------------------------


async def test_batches_in_order_get_the_offsets_in_order(stage: Stage) -> None:
    async with writing(stage) as writer:
        assert [await writer.append(first) for first in (0, 2, 4)] == [appended(1), appended(3), appended(5)]
        assert await writer.end() == 7


@pytest.mark.parametrize("codec", [0, 3, 4])
async def test_merged_batches_are_taken_as_one_batch_with_the_sequences_of_all(stage: Stage, codec: int) -> None:
    async with writing(stage) as writer:
        sources = [encode_batch([Record(at, BORN_MS + at % 3, b"k%d" % at, b"v" * at)], codec) for at in range(40)]
        found = merge(sources, codec=codec, max_batch_bytes=1 << 20).encoded
        assert found is not None
        producer = writer.producer
        restamp(found.payload, 0, read_header(found.payload, 0), producer.producer_id, producer.epoch, 0)
        assert told(await writer.ask(found.payload)) == appended(1)
        assert await writer.append(40) == appended(41)


async def test_one_of_the_last_five_batches_again_gets_its_first_offset(stage: Stage) -> None:
    async with writing(stage) as writer:
        assert [await writer.append(2 * index) for index in range(6)] == [appended(1 + 2 * i) for i in range(6)]
        assert [await writer.append(2 * index) for index in range(1, 6)] == [appended(1 + 2 * i) for i in range(1, 6)]
        assert await writer.end() == 13


async def test_an_older_batch_again_is_out_of_order(stage: Stage) -> None:
    async with writing(stage) as writer:
        for index in range(6):
            await writer.append(2 * index)
        assert await writer.append(0) == refused(K.ORDER, 45)


async def test_a_part_of_a_known_batch_is_out_of_order(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.append(0, 4)
        assert await writer.append(0, 2) == refused(K.ORDER, 45)
        assert await writer.append(2, 2) == refused(K.ORDER, 45)


async def test_a_gap_is_out_of_order_and_appends_nothing(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.append(0)
        assert await writer.append(3) == refused(K.ORDER, 45)
        assert await writer.append(2) == appended(3)


@pytest.mark.parametrize("first", [7, SEQUENCE_SPAN - 3])
async def test_an_unknown_producer_begins_anywhere(stage: Stage, first: int) -> None:
    async with writing(stage, barrier=False) as writer:
        assert await writer.append(first) == appended(0)
        assert await writer.append(first + 2) == appended(2)


async def test_behind_a_barrier_a_producer_begins_at_zero(stage: Stage) -> None:
    async with writing(stage) as writer:
        assert await writer.append(7) == refused(K.ORDER, 45)
        assert await writer.append(0) == appended(1)


async def test_a_new_epoch_begins_at_zero_without_a_barrier_too(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.append(0)
        other = TopicPartition(writer.where.topic, 1)
        writer.producer = await stage.port.acquire(f"{stage.name}-id", [other])
        assert await writer.append(2) == refused(K.ORDER, 45)
        assert await writer.append(0) == appended(3)


async def test_sequences_wrap_between_batches(stage: Stage) -> None:
    async with writing(stage, barrier=False) as writer:
        assert await writer.append(SEQUENCE_SPAN - 2) == appended(0)
        assert await writer.append(1) == refused(K.ORDER, 45)
        assert await writer.append(0) == appended(2)


async def test_sequences_wrap_within_a_batch(stage: Stage) -> None:
    async with writing(stage, barrier=False) as writer:
        assert await writer.append(SEQUENCE_SPAN - 2, 5) == appended(0)
        assert await writer.append(SEQUENCE_SPAN - 2, 5) == appended(0)
        assert await writer.append(3) == appended(5)


async def test_a_restarted_broker_remembers_one_batch_of_a_producer(stage: Stage) -> None:
    async with writing(stage) as writer:
        fresh = [batch(writer.producer, sequence, born_ms=wall_ms()) for sequence in (0, 2, 4, 6)]
        for payload in fresh[:3]:
            await writer.ask(payload)
        await restart(stage, writer)
        assert [told(await writer.ask(one)) for one in fresh] == [
            refused(K.ORDER, 45),
            refused(K.ORDER, 45),
            appended(5),
            appended(7),
        ]


async def test_a_restarted_broker_forgets_a_producer_of_old_records(stage: Stage) -> None:
    """The age of a producer is that of its records: state and fence go, and what is sent again is appended again."""
    async with writing(stage) as writer:
        stale = writer.producer
        writer.producer = await stage.port.acquire(f"{stage.name}-id", [writer.where])
        assert await writer.append(0) == appended(2)
        assert told(await writer.ask(batch(stale, 0))) == refused(K.FENCED, 47)
        await restart(stage, writer)
        assert await stage.port.producers([writer.where]) == {writer.where: []}
        assert await writer.append(0) == appended(4)
        await restart(stage, writer)
        assert told(await writer.ask(batch(stale, 5))) == appended(6)


async def test_a_marker_makes_a_producer_of_old_records_young(stage: Stage) -> None:
    """So an owner that keeps its id alive keeps its fence, however old what it copies is."""
    async with writing(stage) as writer:
        stale = writer.producer
        writer.producer = await stage.port.acquire(f"{stage.name}-id", [writer.where])
        assert await writer.append(0) == appended(2)
        await stage.port.keep_alive(f"{stage.name}-id", writer.producer, [writer.where])
        await restart(stage, writer)
        assert told(await writer.ask(batch(stale, 0))) == refused(K.FENCED, 47)
        assert await writer.append(0) == appended(2)
        assert await writer.append(2) == appended(5)


async def restart(stage: Stage, writer: Writer) -> None:
    await stage.restart()
    await writer.broker.wait_lost()
    await writer.open()


# --- fencing --------------------------------------------------------------------------------------------------


async def test_an_older_epoch_is_fenced(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.append(0)
        newer = await stage.port.acquire(f"{stage.name}-id", [writer.where])
        assert (newer.producer_id, newer.epoch) == (writer.producer.producer_id, writer.producer.epoch + 1)
        assert await writer.append(2) == refused(K.FENCED, 47)
        assert await writer.append(0) == refused(K.FENCED, 47)


async def test_a_barrier_leaves_one_control_record_per_partition(stage: Stage) -> None:
    first = await stage.target()
    both = [first, TopicPartition(first.topic, 1)]
    producer = await stage.port.acquire(f"{stage.name}-id", both)
    assert producer.fenced
    marker = TailBatch(0, 1, producer.producer_id, producer.epoch, -1, 1, True, leader_epoch=0)
    for where in both:
        assert await stage.port.read_headers(where, 0, 10) == [marker]
    assert await stage.port.offsets(both, _LATEST) == dict.fromkeys(both, 1)


async def test_staying_alive_writes_a_marker_and_the_sequences_go_on(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.append(0)
        await stage.port.keep_alive(f"{stage.name}-id", writer.producer, [writer.where])
        assert await writer.append(0) == appended(1)
        assert await writer.append(2) == appended(4)


async def test_a_former_owner_is_not_kept_alive(stage: Stage) -> None:
    async with writing(stage) as writer:
        await stage.port.acquire(f"{stage.name}-id", [writer.where])
        with pytest.raises(KafkaRefusal) as refusal:
            await stage.port.keep_alive(f"{stage.name}-id", writer.producer, [writer.where])
        assert refusal.value.code == 47


async def test_producers_are_remembered(stage: Stage) -> None:
    async with writing(stage) as writer:
        (known,) = (await stage.port.producers([writer.where]))[writer.where]
        assert (known.producer_id, known.epoch) == (writer.producer.producer_id, writer.producer.epoch)
        assert (known.last_sequence, known.open_since_offset) == (-1, -1)
        await writer.append(0, 3)
        (known,) = (await stage.port.producers([writer.where]))[writer.where]
        assert (known.last_sequence, known.open_since_offset, known.last_timestamp_ms) == (2, -1, BORN_MS + 2)


# --- what a target refuses ------------------------------------------------------------------------------------


async def test_a_batch_too_large(stage: Stage) -> None:
    async with writing(stage, {"max.message.bytes": "500"}) as writer:
        outcome = await writer.ask(batch(writer.producer, 0, 3, value=b"v" * 200))
        assert told(outcome) == refused(K.TOO_LARGE, 10)
        assert await writer.append(0) == appended(1)


async def test_a_record_without_key_into_a_compacted_topic(stage: Stage) -> None:
    async with writing(stage, {"cleanup.policy": "compact"}) as writer:
        outcome = await writer.ask(batch(writer.producer, 0, keys=[b"a", b"b", None, b"c", None]))
        assert (told(outcome), outcome.record_index) == (refused(K.REFUSED, 87), 2)
        assert outcome.record_indexes == (2, 4)  # all of them
        assert await writer.append(0) == appended(1)


async def test_a_record_too_old(stage: Stage) -> None:
    async with writing(stage, {"message.timestamp.before.max.ms": "3600000"}) as writer:
        outcome = await writer.ask(batch(writer.producer, 0, 3))
        assert (told(outcome), outcome.record_index) == (refused(K.REFUSED, 32), 0)
        assert await writer.end() == 1


@pytest.mark.parametrize("missing", ["partition", "topic"])
async def test_what_does_not_exist_is_to_be_looked_up_again(stage: Stage, missing: str) -> None:
    async with writing(stage) as writer:
        where = TopicPartition(stage.name, 99) if missing == "partition" else TopicPartition("no-such-topic", 0)
        assert told(await writer.ask(batch(writer.producer, 0), where)) == refused(K.UNKNOWN, 3)
        assert where not in await stage.port.leaders([where])


async def test_the_outcomes_come_in_the_order_of_the_appends(stage: Stage) -> None:
    async with writing(stage) as writer:
        producer = writer.producer
        other, none = TopicPartition(stage.name, 1), TopicPartition(stage.name, 99)
        wanted = [(none, batch(producer, 0)), (other, batch(producer, 5)), (writer.where, batch(producer, 3))]
        outcomes = await send(writer.broker, *wanted)
        assert [told(one) for one in outcomes] == [refused(K.UNKNOWN, 3), appended(0), refused(K.ORDER, 45)]


async def test_two_batches_of_a_partition_in_one_request_are_not_sent(stage: Stage) -> None:
    async with writing(stage) as writer:
        producer = writer.producer
        with pytest.raises(ValueError, match="one batch per partition"):
            await send(writer.broker, (writer.where, batch(producer, 0)), (writer.where, batch(producer, 2)))
        assert await writer.append(0) == appended(1)


async def test_a_lost_connection_leaves_every_outcome_unknown(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.broker.close()
        await writer.broker.wait_lost()
        assert (await writer.ask(batch(writer.producer, 0))).kind is K.UNKNOWN
        assert await writer.end() == 1


async def test_appends_to_a_topic_created_anew_are_not_taken(stage: Stage) -> None:
    async with writing(stage) as writer:
        before = (await stage.port.leaders([writer.where]))[writer.where]
        await writer.append(0)
        await stage.recreate(writer.where)
        assert told(await writer.ask(batch(writer.producer, 2))) == refused(K.UNKNOWN, 100)
        after = (await stage.port.leaders([writer.where]))[writer.where]
        assert after.topic_id not in ("", before.topic_id)
        assert told(await writer.ask(batch(writer.producer, 2))) == refused(K.UNKNOWN, 100)
        assert await writer.end() == 0


async def test_another_producer_id_has_sequences_of_its_own(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.append(0)
        stranger = msgspec.structs.replace(writer.producer, producer_id=writer.producer.producer_id + 1_000_000)
        assert told(await writer.ask(batch(stranger, 9))) == appended(3)
        assert await writer.append(2) == appended(5)

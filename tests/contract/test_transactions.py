"""The contract of transactions: the fake cluster and a real broker accept, refuse, show and hide the same records."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base.errors import KafkaRefusal
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.position.target_tail import TailBatch
from engine.flow.ports.ports import Append, Producer, TargetBroker
from engine.wire.batch import read_header, restamp
from policies.model import TopicPartition
from tests.contract.stage import Stage, batch

_DEADLINE_S = 180.0


class Writer:
    """One owner of a transactional id, with a partition for records and one beside it."""

    def __init__(self, stage: Stage, where: TopicPartition, broker: TargetBroker, producer: Producer) -> None:
        self.stage, self.where, self.broker, self.producer = stage, where, broker, producer
        self.beside = TopicPartition(where.topic, 1)
        self.name = f"{stage.name}-id"

    async def begin(self, *partitions: TopicPartition) -> None:
        await self.stage.port.add_to_transaction(self.name, self.producer, partitions or [self.where])

    async def commit(self) -> None:
        await self.stage.port.commit(self.name, self.producer)

    async def append(
        self, sequence: int, *, transactional: bool = True, where: TopicPartition | None = None, name: str = ""
    ) -> Outcome:
        payload = batch(self.producer, sequence)
        if transactional:
            who = self.producer.producer_id, self.producer.epoch, sequence
            restamp(payload, 0, read_header(payload, 0), *who, transactional=True)
        answered: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        transaction = name or (self.name if transactional else "")
        self.broker.append([Append(where or self.where, payload, transaction)], answered.set_result)
        async with asyncio.timeout(_DEADLINE_S):
            return (await answered)[0]

    async def headers(self) -> list[TailBatch]:
        return await self.stage.port.read_headers(self.where, 0, 100)

    async def seen(self) -> int:
        """Count the committed records, of the log to its end."""
        return len(await self.stage.port.read_records(self.where.topic, {self.where.partition}))

    async def until_end(self, end: int) -> None:
        """Wait for a marker: a commit is decided before it is written."""
        async with asyncio.timeout(_DEADLINE_S):
            while (await self.stage.port.offsets([self.where], -1))[self.where] < end:  # noqa: ASYNC110 - a broker tells nobody
                await asyncio.sleep(0.02)


@asynccontextmanager
async def writing(stage: Stage) -> AsyncIterator[Writer]:
    """Own both partitions of a topic, behind a barrier: offset 0 is its marker."""
    where = await stage.target()
    producer = await stage.port.acquire(f"{stage.name}-id", [where, TopicPartition(where.topic, 1)])
    broker = await stage.port.target_broker((await stage.port.leaders([where]))[where].node)
    try:
        yield Writer(stage, where, broker, producer)
    finally:
        await broker.close()


async def test_what_is_committed_is_seen_and_the_sequences_go_on(stage: Stage) -> None:
    async with writing(stage) as writer:
        for turn in range(2):
            await writer.begin()
            assert (await writer.append(2 * turn)).base_offset == 1 + 3 * turn
            assert (await writer.headers())[-1].is_open
            assert await writer.seen() == 2 * turn
            await writer.commit()
            await writer.until_end(4 + 3 * turn)
            assert await writer.seen() == 2 * turn + 2
        found = await writer.headers()
        assert [one.is_control for one in found] == [True, False, True, False, True]
        assert not any(one.is_open for one in found)
        assert {(one.producer_id, one.producer_epoch) for one in found} == {
            (writer.producer.producer_id, writer.producer.epoch)
        }


async def test_what_was_open_is_rolled_back_for_the_next_owner(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.begin()
        await writer.append(0)
        newer = await stage.port.acquire(writer.name, [writer.where, writer.beside])
        found = await writer.headers()
        assert [one.is_control for one in found] == [True] * len(found), "markers, and what they rolled back"
        assert len([one for one in found if one.base_sequence == 0]) == 1
        assert await writer.seen() == 0
        assert (await writer.append(2)).kind is OutcomeKind.FENCED
        with pytest.raises(KafkaRefusal) as refusal:
            await writer.commit()
        assert refusal.value.code == 47
        writer.producer = newer
        await writer.begin()
        assert (await writer.append(0)).kind is OutcomeKind.APPENDED
        await writer.commit()
        await writer.until_end((await writer.headers())[-1].next_offset)


async def test_to_commit_again_is_to_commit_once(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.begin()
        await writer.append(0)
        await writer.commit()
        await writer.commit()
        await writer.until_end(4)
        assert await writer.seen() == 2


async def test_an_open_transaction_hides_nothing_of_others(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.begin()
        await writer.append(0)
        taken = await stage.port.acquire(f"{stage.name}-other", [writer.beside])
        other = Writer(stage, writer.where, writer.broker, taken)
        other.name = f"{stage.name}-other"
        await other.begin()
        await other.append(0)
        await other.commit()
        await other.until_end(6)
        assert await writer.seen() == 2
        assert [one.is_open for one in await writer.headers()] == [False, True, False, False]
        await writer.commit()
        await writer.until_end(7)
        assert await writer.seen() == 4


async def test_a_transactional_batch_needs_a_transaction(stage: Stage) -> None:
    async with writing(stage) as writer:
        refused = await writer.append(0)
        assert (refused.kind, refused.error_code) == (OutcomeKind.FENCED, 48)
        await writer.begin(writer.beside)
        assert (await writer.append(0)).error_code == 48
        assert (await writer.append(0, where=writer.beside)).kind is OutcomeKind.APPENDED


async def test_a_plain_batch_goes_beside_a_transaction_not_into_it(stage: Stage) -> None:
    async with writing(stage) as writer:
        await writer.begin()
        await writer.append(0)
        assert (await writer.append(2, transactional=False)).error_code == 48
        assert (await writer.append(0, transactional=False, where=writer.beside)).kind is OutcomeKind.APPENDED


async def test_a_request_of_two_transactions_is_not_sent(stage: Stage) -> None:
    async with writing(stage) as writer:
        appends = [Append(writer.where, batch(writer.producer, 0), "a"), Append(writer.beside, bytearray(), "b")]
        with pytest.raises(ValueError, match="transaction"):
            writer.broker.append(appends, lambda _outcomes: None)

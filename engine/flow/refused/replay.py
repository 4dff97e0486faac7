"""Replays refused records to the copy, each exactly once, and drops entries.

    begin    a new epoch of one transactional id: what an earlier replay left open is rolled back
             the note that this producer id replays, so that no lane takes its records for another writer's
    replay   one transaction: the record at the end of the copy's partition, and the mark with its offset
    drop     the mark in a transaction, then the entry again without contents, then a tombstone for the contents

A record and its mark are committed together. So a replay that died replays nothing twice when it is started again. A
drop takes a new epoch too: a replay that runs cannot commit a record that was dropped meanwhile, nor the other way.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from engine.base.clock import backoff_s, pause
from engine.base.errors import ConnectionLost, KafkaRefusal, MirrorError
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.refused.entries import (
    RefusedMark,
    RefusedState,
    contents_record,
    emptied,
    entry_of,
    mark_of,
    producer_of,
)
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import NO_TRANSACTIONS, Cluster, Producer
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.wire.batch import read_header, restamp
from engine.wire.codecs import GZIP, NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition

_TRIES = 5
_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_NO_TRANSACTIONS = "the target has no transactions, without which nothing can be replayed exactly once"
_NO_RIGHT = "grant Write and Describe on the transactional id"


class ReplayFailed(MirrorError):
    """A record was not replayed, or not marked: its name, and why."""

    exit_code = 1

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class Replay:
    """Replays or drops records of one flow. One command at a time: a second one fences the first."""

    def __init__(
        self, target: Cluster, flow: FlowName, wall_ms: Callable[[], int], request_timeout_s: float = 30.0
    ) -> None:
        self._target, self._flow, self._wall_ms = target, flow, wall_ms
        self._timeout_s = request_timeout_s
        self.transactional_id = f"raymirror.{flow}.quarantine"
        self.reader = QuarantineReader(target, flow.source, is_used=True)
        self.begun = 0
        """How often `begin` took a new epoch: each one may have fenced another replay off."""
        self._producer: Producer | None = None
        self._lines: dict[TopicPartition, PartitionWriter] = {}
        self._sequences: dict[TopicPartition, int] = {}

    async def begin(self) -> None:
        """Take the producer and announce it.

        Raises ReplayFailed without transactions or the right to the transactional id, and what the Cluster port raises.
        """
        producer = await self._entered()
        if producer is None:
            raise self._unfenced(_NO_TRANSACTIONS)
        await self._write(self.reader.marks, producer_of(producer.producer_id, self._wall_ms()))

    async def begin_drops(self) -> None:
        """Take the producer, so that what a replay has open is rolled back; without transactions nobody replays.

        Raises ReplayFailed without the right to the transactional id, and what the Cluster port raises.
        """
        await self._entered()

    async def _entered(self) -> Producer | None:
        """Take a new epoch of the transactional id; None if the target has no transactions."""
        producer = await self._target.enter(self.transactional_id)
        if not producer.fenced and producer.unfenced_by != NO_TRANSACTIONS:
            raise self._unfenced(f"not permitted; {_NO_RIGHT}")
        self._producer, self._sequences = producer if producer.fenced else None, {}
        self.begun += 1
        return self._producer

    def _unfenced(self, why: str) -> ReplayFailed:
        return ReplayFailed(f"transactional id {self.transactional_id}", why)

    async def replay(self, state: RefusedState, record: Record) -> int:
        """Append a record to its copy's partition and mark it; return its target offset.

        Raises ReplayFailed if the target still refuses it (nothing is left behind then, and `begin` was done again, so
        read the marks: another replay may have been at work), or if nobody knows the outcome; then the marks say what
        happened once `begin` has run again.
        """
        target, name = state.record.target, str(state.record.name)
        producer = self._producer
        assert producer is not None, "call begin first"
        await self._open(producer, name, [target, self.reader.marks])
        outcome = await self._append(producer, target, record)
        if outcome.kind is not OutcomeKind.APPENDED:
            await self._give_up(name, "the target answers", outcome)
        mark = RefusedMark(
            did="replayed", at_ms=self._wall_ms(), target_topic=target.topic, target_offset=outcome.base_offset
        )
        await self._mark(producer, state, mark)
        return outcome.base_offset

    async def _open(self, producer: Producer, name: str, partitions: Sequence[TopicPartition]) -> None:
        try:
            await self._target.add_to_transaction(self.transactional_id, producer, partitions)
        except KafkaRefusal as refusal:
            raise ReplayFailed(name, str(refusal)) from refusal

    async def _mark(self, producer: Producer, state: RefusedState, mark: RefusedMark) -> None:
        """Append a mark in the open transaction, and commit it."""
        name = state.record.name
        marked = await self._append(producer, self.reader.marks, mark_of(self._flow.source, name, mark))
        if marked.kind is not OutcomeKind.APPENDED:
            await self._give_up(str(name), "its mark cannot be written:", marked)
        await self._commit(producer, str(name))

    async def _give_up(self, name: str, what: str, outcome: Outcome) -> NoReturn:
        """Roll the open transaction back by a new epoch, unless another replay has done so."""
        if outcome.kind is not OutcomeKind.FENCED:
            await self.begin()
        raise ReplayFailed(name, f"{what} {outcome.message or outcome.kind.value}")

    async def drop(self, state: RefusedState) -> None:
        """Mark a record as dropped, write its entry again, and remove its contents; call `begin_drops` first.

        Raises ReplayFailed, also if a replay or another drop has begun since: nothing is dropped then.
        """
        facts, producer = state.record, self._producer
        mark = RefusedMark(did="dropped", at_ms=self._wall_ms())
        if producer is None:
            await self._write(self.reader.marks, mark_of(self._flow.source, facts.name, mark))
        else:
            await self._open(producer, str(facts.name), [self.reader.marks])
            await self._mark(producer, state, mark)
        if facts.held:
            await self._write(self.reader.entries, entry_of(self._flow.source, emptied(facts)))
            await self._write(self.reader.held, contents_record(self._flow.source, facts, None))

    async def _append(self, producer: Producer, partition: TopicPartition, record: Record) -> Outcome:
        """Append a record in the open transaction; repeats are recognised by their sequence."""
        payload, sequence = _batch(record), self._sequences.get(partition, 0)
        header = read_header(payload, 0)
        restamp(payload, 0, header, producer.producer_id, producer.epoch, sequence, transactional=True)
        outcome = await self._send(partition, payload, self.transactional_id)
        if outcome.kind is OutcomeKind.APPENDED:
            self._sequences[partition] = sequence + 1
        return outcome

    async def _write(self, partition: TopicPartition, record: Record) -> None:
        """Append a record outside of transactions, at least once."""
        outcome = await self._send(partition, _batch(record), "")
        if outcome.kind is not OutcomeKind.APPENDED:
            raise ReplayFailed(f"{partition} cannot be written", outcome.message or outcome.kind.value)

    async def _send(self, partition: TopicPartition, payload: bytearray, transactional_id: str) -> Outcome:
        line = self._lines.get(partition)
        if line is None:
            line = PartitionWriter(self._target, partition, self._timeout_s, by_name=True)
            self._lines[partition] = line
        for attempt in range(1, _TRIES):
            outcome = await line.send(payload, transactional_id)
            if outcome.kind not in _AGAIN:
                return outcome
            await pause(backoff_s(attempt))
        return await line.send(payload, transactional_id)

    async def _commit(self, producer: Producer, name: str) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._target.commit(self.transactional_id, producer)
            except (ConnectionLost, KafkaRefusal) as error:
                if isinstance(error, KafkaRefusal) or attempt == _TRIES:
                    why = f"nobody knows whether it was committed ({error}); see: raymirror quarantine list"
                    raise ReplayFailed(name, why) from error
            await pause(backoff_s(attempt))
        return None

    async def close(self) -> None:
        """Close the connections."""
        for line in self._lines.values():
            await line.close()


def _batch(record: Record) -> bytearray:
    size = len(record.key or b"") + len(record.value or b"")
    return encode_batch([record], GZIP if size >= 256 else NONE)

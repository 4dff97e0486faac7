"""Leaves refused records out of the copy of a lane, as `raymirror.refused` says.

    target refuses a batch  ->  which records?  ->  their entries are durable  ->  the lane goes on without them
                                (else: halves)      (else: the lane waits)

The order makes it exact: the next position is behind the records, so their entries must be durable before. If the owner
dies in between, the next owner sends the records again, and the target refuses or takes them. An entry of a record that
the target took after all is void: the offset map has the record.
"""

from enum import Enum, auto
from functools import partial

import msgspec

from engine.base.clock import now_s, wall_ms
from engine.core.events.refused_events import RecordsLeftOut
from engine.core.lane.actions import RetryRefused
from engine.core.lane.left_out import sources_at
from engine.core.lane.outcome import REFUSED_FOR_GOOD
from engine.core.lane.pending_batch import Payload
from engine.core.refused.entries import RefusedRecord
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.buffers import BufferPool
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.refused.quarantine_writer import QuarantineWriter
from engine.wire.batch import read_header
from engine.wire.decode import decode_records
from engine.wire.merging.cut import without
from engine.wire.record import Record
from engine.wire.records import Encoded
from policies.model import TopicPartition
from policies.sync.topic_faults import OnRefused

MAY_ARRIVE = "a copy of a refused batch may still arrive: a new producer epoch is needed before records are left out"


class LeftOut(Enum):
    """What became of a refused batch."""

    DONE = auto()
    """The lane goes on without the records."""
    DROPPED = auto()
    """The lane has dropped the batch: it will be fetched again."""
    REACQUIRE = auto()
    """The lane needs a new producer epoch first (`MAY_ARRIVE`)."""


class _Opened(msgspec.Struct, frozen=True):
    """The refused records of a batch, and the others as one batch; None: there are none."""

    refused: list[Record]
    rest: Encoded | None


class LeavingOut:
    """Leaves out refused records of one copier's lanes."""

    def __init__(self, context: CopierContext, pool: BufferPool) -> None:
        self._context, self._pool = context, pool
        options = context.options
        self._writer = QuarantineWriter(context.target, options.flow.source, options.request_timeout_s, pool)

    def wants(self, driver: LaneDriver, refused: RetryRefused) -> bool:
        """Whether the rules leave out what the target refuses with this error."""
        return refused.event.error_code in REFUSED_FOR_GOOD and self._choice(driver) is not OnRefused.STOP

    def _choice(self, driver: LaneDriver) -> OnRefused:
        return self._context.options.faults.on_refused(driver.name.source.topic)

    async def leave_out(self, driver: LaneDriver, refused: RetryRefused) -> LeftOut:
        """Make the entries of refused records durable, and let the lane go on without the records.

        Raises NotQuarantined, and WireError for a batch that cannot be opened; then the lane is as it was.
        """
        lane, piece, indexes = driver.lane, refused.piece, refused.indexes
        may = lane.may_leave_out(piece)
        if not may:
            return LeftOut.DROPPED if may is None else LeftOut.REACQUIRE
        offsets = sources_at(lane.sequences.stretches(piece.sequence, piece.record_count), indexes)
        # In a thread, because the batch may be large. It is not in flight, so nothing writes to it.
        opened = await self._pool.work_beside(
            partial(_open, piece.payload, indexes, driver.name.target, self._context.options.inflated_bytes)
        )
        held = self._choice(driver) is OnRefused.QUARANTINE
        pairs = zip(offsets, opened.refused, strict=True)
        facts = [self._facts(driver, refused, offset, record) for offset, record in pairs]
        await self._writer.append(facts, opened.refused if held else ())
        if not lane.may_leave_out(piece):
            return LeftOut.DROPPED
        lane.leave_out(piece, indexes, opened.rest)
        self._context.meter.left_out(len(indexes))
        self._tell(driver, refused, offsets, held=held)
        return LeftOut.DONE

    def _facts(self, driver: LaneDriver, refused: RetryRefused, offset: int, record: Record) -> RefusedRecord:
        source, target = driver.name
        return RefusedRecord(
            topic=source.topic,
            partition=source.partition,
            offset=offset,
            topic_id=driver.leaders.source.topic_id,
            target_topic=target.topic,
            timestamp_ms=record.timestamp,
            error_code=refused.event.error_code,
            words=refused.event.reason,
            at_ms=wall_ms(),
            key_bytes=None if record.key is None else len(record.key),
            value_bytes=None if record.value is None else len(record.value),
            headers=len(record.headers),
            deployment=self._context.options.deployment_id,
        )

    def _tell(self, driver: LaneDriver, refused: RetryRefused, offsets: list[int], *, held: bool) -> None:
        records = driver.health.left_out(len(offsets), now_s())
        if records:
            event = RecordsLeftOut(
                flow=self._context.flow,
                lane=driver.name.source,
                records=records,
                source_offset=offsets[-1],
                error_code=refused.event.error_code,
                reason=refused.event.reason,
                topic=self._writer.topic,
                held=held,
            )
            self._context.events.report(event)

    async def close(self) -> None:
        """Close the connection to the quarantine topic."""
        await self._writer.close()


def _open(payload: Payload, indexes: tuple[int, ...], target: TopicPartition, inflated_bytes: int) -> _Opened:
    header = read_header(payload, 0)
    records = decode_records(payload, 0, header, *target)
    rest = without(payload, header, indexes, *target, inflated_bytes=inflated_bytes)
    return _Opened([records[index] for index in indexes], rest)

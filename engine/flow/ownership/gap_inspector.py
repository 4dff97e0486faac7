"""Checks if target offsets between a lane's own records hold another writer's records, or only the lane's markers."""

import msgspec

from engine.base.clock import backoff_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.events.events import ForeignWriter
from engine.core.lane.states import State
from engine.core.position.target_tail import TailBatch
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.denials import Denials
from engine.flow.ports.ports import EARLIEST, LATEST, Producer
from engine.flow.refused.quarantine_reader import Replayers
from policies.model import TopicPartition

QUIET_S = 60.0
"""Seconds between two events about a lane that continues although another writer appends too."""
_MOST_READS = 64
"""Most answers, of about 1 MiB each, that are read for the end of another writer's records; the event ends there."""
_MOST_ENDS = 5
_END_WAIT_S = 0.5
"""Most questions to a log that ends too early, and the first pause in seconds: an old leader may have answered."""
_ENDED = (State.FAILED, State.STOPPED)


class _Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Target offsets `first` to `last` (inclusive) with `count` gaps of one owner; between the gaps are its records."""

    producer: Producer | None
    first: int
    last: int
    count: int = 1


class _Lane:
    """Gaps of one lane that were found during an inspection: one range of offsets, for any number of gaps."""

    def __init__(self) -> None:
        self._gap: _Gap | None = None
        self.attempt = 0

    def gather(self, gap: _Gap) -> None:
        """Add a gap. It replaces gaps of a previous owner: the next owner has read the log up to its barrier."""
        held = self._gap
        if held is not None and held.producer is gap.producer:
            first, last = min(held.first, gap.first), max(held.last, gap.last)
            gap = _Gap(producer=gap.producer, first=first, last=last, count=held.count + gap.count)
        self._gap = gap

    def take_gap(self, producer: Producer | None) -> _Gap | None:
        """Return the gathered range and forget it; None if this owner has none."""
        gap, self._gap = self._gap, None
        return gap if gap is not None and gap.producer is producer else None


class GapInspector:
    """Inspects one gap of a lane at a time, and reports another writer once a minute at most.

    Gaps that are found during an inspection are gathered as one range. It is read from its first offset on, in answers
    of bounded size, up to the end of the first records of another writer: if that writer is busy, this is one read.
    """

    def __init__(self, context: CopierContext, denials: Denials) -> None:
        self._context = context
        self._options = context.options
        self._target = context.target
        self._denials = denials
        is_used = context.options.faults.leaves_out
        self._replayers = Replayers(context.target, context.flow.source, is_used=is_used)
        self._lanes: dict[LaneDriver, _Lane] = {}

    def found(self, driver: LaneDriver, first: int, last: int) -> None:
        """Note target offsets, both inclusive, that the lane did not write; a lane has one inspection at a time."""
        gap = _Gap(producer=driver.producer, first=first, last=last)
        looked_at = self._lanes.get(driver)
        if looked_at is not None:
            looked_at.gather(gap)
            return
        lane = self._lanes[driver] = _Lane()
        lane.gather(gap)
        self._context.tasks.spawn(self._look(driver, lane))

    async def _look(self, driver: LaneDriver, lane: _Lane) -> None:
        try:
            while driver.lane.state not in _ENDED and (gap := lane.take_gap(driver.producer)) is not None:
                await self._look_into(driver, lane, gap)
        finally:
            del self._lanes[driver]

    async def _look_into(self, driver: LaneDriver, lane: _Lane, gap: _Gap) -> None:
        try:
            foreign = await self._foreign(driver.name.target, gap)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal) as error:
            if isinstance(error, KafkaRefusal) and not self._denials.refused(driver, error):
                return
            lane.attempt += 1
            await pause(self._options.refused_retry_s if isinstance(error, KafkaRefusal) else backoff_s(lane.attempt))
            if driver.producer is gap.producer:
                lane.gather(gap)
            return
        lane.attempt = 0
        self._denials.allowed(driver)
        if foreign is None or driver.producer is not gap.producer or driver.lane.state in _ENDED:
            return
        event = ForeignWriter(
            flow=self._options.flow,
            lane=driver.name.source,
            target=driver.name.target,
            first=foreign[0],
            last=foreign[1],
            stopped=self._options.stop_on_foreign_writer,
            gaps=gap.count,
        )
        if event.stopped:
            self._context.fail(driver, event)
        else:
            self._context.events.report(event)
            await pause(QUIET_S)

    async def _foreign(self, target: TopicPartition, gap: _Gap) -> tuple[int, int] | None:
        """Find the first records of another writer in a gap: their first offset, and the last before the lane's own."""
        start = (await self._target.offsets([target], EARLIEST))[target]
        end = await self._end(target, gap.last)
        at, reads, found = max(gap.first, start), 0, list[TailBatch]()
        while at <= gap.last and at < end and reads < _MOST_READS:
            batches = await self._target.read_headers(target, at, at + 1)  # one answer
            if not batches:
                break
            for batch in batches:
                if batch.base_offset > gap.last or (found and self._is_ours(batch, gap)):
                    return _span(found)
                if not batch.is_control and not self._is_ours(batch, gap) and not await self._replayers.knows([batch]):
                    found = [*found[:1], batch]
            at = batches[-1].next_offset
            reads += bool(found)
        return _span(found)

    async def _end(self, target: TopicPartition, last: int) -> int:
        """Return the log's end once it is above offset `last`, or after a few tries: then the log has lost records.

        The inspection does not report lost records: the lane is acquired again when it detects the loss.
        """
        end = (await self._target.offsets([target], LATEST))[target]
        for attempt in range(1, _MOST_ENDS):
            if end > last:
                break
            await pause(backoff_s(attempt, _END_WAIT_S))
            end = (await self._target.offsets([target], LATEST))[target]
        return end

    @staticmethod
    def _is_ours(batch: TailBatch, gap: _Gap) -> bool:
        ours = gap.producer.producer_id if gap.producer is not None else -1
        return not batch.is_control and batch.producer_id == ours


def _span(found: list[TailBatch]) -> tuple[int, int] | None:
    return (found[0].base_offset, found[-1].next_offset - 1) if found else None

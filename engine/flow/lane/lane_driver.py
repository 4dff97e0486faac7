"""One lane with its parts: its owner, its leaders, its health, and the streams that it writes.

Each fact is in one part. A part changes only by methods that name what happened:

    lane        the records between the clusters (engine/core/lane)
    ownership   set, epoch, producer                 written by acquisition and the sets
    attempts    to get an owner                      written by the acquisition scheduler and the failure handler
    leaders     of both partitions                   written by the look-ups, the router and the leader verifier
    health      why the lane does not copy           written by the failure handler and the denials
    upkeep      marks of the periodic work           written by the maintenance loop
    end, watch  source end and lag                   written by the inbox and the source ends
    streams     positions and blocks of the map, each with an appender
"""

from typing import Any, Protocol

import msgspec

from engine.base.clock import now_s, wall_ms
from engine.core.events.events import AnyEvent
from engine.core.lane.actions import Action, Reacquire
from engine.core.lane.batch_limit import BatchLimit
from engine.core.lane.intake import stamp
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import PendingBatch
from engine.core.lane.states import State
from engine.core.mm2.sync_emitter import OffsetPair, SyncEmitter
from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.position import Position
from engine.core.position.resume import ResumePoint
from engine.core.reports.lag import LagWatch
from engine.core.reports.source_end import SourceEnd
from engine.core.streams.block_stream import BlockStream
from engine.core.streams.fenced_stream import FencedStream, Write
from engine.core.streams.position_stream import PositionStream
from engine.core.streams.transaction import CommittedPositions
from engine.flow.lane.acquire_attempts import AcquireAttempts
from engine.flow.lane.appender import Appender
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_health import LaneHealth
from engine.flow.lane.lane_leaders import NOBODY, KnownLeader, LaneLeaders
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.lane.upkeep import Upkeep
from engine.flow.ports.ports import PartitionFetch, Producer
from policies.model import LaneName, TopicPartition

_MAY_DOUBLE = "a batch of unknown outcome is so old that its leader may have forgotten the producer: the log is read"


class AppendEvents(Protocol):
    """Reports of a lane about its appends."""

    def perform(self, driver: "LaneDriver", action: Action) -> None:
        """Start an action that the lane asks for."""

    def appended(self, driver: "LaneDriver") -> None:
        """Records were acknowledged: the lane has room for more."""

    def written(self, driver: "LaneDriver") -> None:
        """A position or block is durable: what waited for it may be sent or fetched."""

    def progressed(self, driver: "LaneDriver") -> None:
        """Something changed that the lane's transaction may have waited for."""


class StreamAppender:
    """Appends what a lane writes in addition to its records: positions, or blocks of the map.

    `transactional_id`: of the transaction that it writes in; empty: no transaction.
    """

    def __init__(
        self,
        driver: "LaneDriver",
        stream: FencedStream[Any],
        partition: TopicPartition,
        events: AppendEvents,
        transactional_id: str = "",
    ) -> None:
        self.partition = partition
        self.transactional_id = transactional_id
        self.stream = stream
        self.leader = NOBODY
        self.topic_id = ""
        """The id of the topic at the last look-up of its leader."""
        self._driver = driver
        self._events = events

    def next_batch(self, *, queues: bool) -> Write | None:  # noqa: ARG002
        """Hand out the write that is due, whatever queues at the broker."""
        write: Write | None = self.stream.next_write()
        if write is None:
            self._events.progressed(self._driver)
        return write

    def on_outcome(self, batch: Write, outcome: Outcome) -> None:
        """Process the answer; what waited for this write to be durable may continue."""
        action = self.stream.on_outcome(batch, outcome)
        if action is not None:
            self._events.perform(self._driver, action)
        self._driver.on_written()


class LaneStreams(msgspec.Struct, frozen=True):
    """What a lane writes in addition to its records. `syncs`: which offset syncs are due; None if none are written.

    `transactional_id`: of the lane's producer, if records and positions are in a transaction.
    """

    positions: PositionStream
    positions_partition: TopicPartition
    syncs: SyncEmitter | None = None
    transactional_id: str = ""


class LaneDriver:
    """One lane with its parts; also the appender of its target partition.

    `turn`: the lane's number, by which lanes share the connections to a broker.
    """

    def __init__(
        self,
        lane: Lane,
        ownership: LaneOwnership,
        streams: LaneStreams,
        turn: int,
        events: AppendEvents,
        meter: CopierMetrics | None = None,
    ) -> None:
        self.lane = lane
        self.ownership = ownership
        self.turn = turn
        self.attempts = AcquireAttempts(now_s())
        self.leaders = LaneLeaders()
        self.health = LaneHealth()
        self.upkeep = Upkeep()
        self.end = SourceEnd()
        self.watch = LagWatch(wall_ms())
        self.limit = BatchLimit()
        self.meter = meter or CopierMetrics()
        self.latency_ms = 0
        self.want: PartitionFetch | None = None
        """What the inbox asked for in the last fetch."""
        self.marker_owed = False
        """Whether the last commit is decided and its marker not seen yet (`flow/replication/marker_watch.py`)."""
        self.partition = lane.name.target
        self.positions = streams.positions
        self.transaction = self.positions if isinstance(self.positions, CommittedPositions) else None
        """The transaction of records and position; None if the lane copies without transactions."""
        self.transactional_id = streams.transactional_id if self.transaction is not None else ""
        self.syncs = streams.syncs
        self.blocks = BlockStream(lane, wall_ms)
        where = streams.positions_partition
        blocks_partition = TopicPartition(map_topic(lane.flow.source), where.partition)
        self.position_appender = StreamAppender(self, self.positions, where, events, self.transactional_id)
        self.block_appender = StreamAppender(self, self.blocks, blocks_partition, events)
        self.auxiliary = self.position_appender, self.block_appender
        """The appenders that write no records."""
        self._events = events

    @property
    def name(self) -> LaneName:
        """Source and target partition."""
        return self.lane.name

    @property
    def producer(self) -> Producer | None:
        """The producer of this owner; None before the first one."""
        return self.ownership.producer

    @property
    def fenced_partitions(self) -> list[TopicPartition]:
        """The target partitions that the lane's barrier covers: all to which its producer id appends."""
        return [self.partition, *(appender.partition for appender in self.auxiliary)]

    @property
    def kept_alive_partitions(self) -> list[TopicPartition]:
        """The target partitions where the fence is renewed; the copy is one only if the lane has a barrier."""
        return [one.partition for one in self.auxiliary] if self.ownership.alone else self.fenced_partitions

    @property
    def appenders(self) -> tuple[Appender, ...]:
        """The lane itself, and the auxiliary ones."""
        return self, *self.auxiliary

    def writer_of(self, what: str) -> StreamAppender:
        """Return the auxiliary appender that writes `what`."""
        return next(one for one in self.auxiliary if one.stream.what == what)

    @property
    def source_is_old(self) -> bool:
        """Whether the known source leader has an older epoch than the fetched records."""
        return self.leaders.source_is_older(self.lane.source_leader_epoch)

    @property
    def source_end(self) -> int:
        """The last end offset of the source partition that a broker reported; -1: none yet."""
        return self.end.offset

    def next_batch(self, *, queues: bool = False) -> PendingBatch | None:
        """Hand out the next batch of records, stamped; larger ones are merged too if `queues`."""
        transaction = self.transaction
        if transaction is not None and not transaction.takes_records:
            self._events.progressed(self)
            return None
        if self.leaders.doubted:
            return None
        lane = self.lane
        if lane.state is State.COPYING and lane.pieces.may_double(lane.forgets_before_ms):
            self._events.perform(self, Reacquire(_MAY_DOUBLE, settles=True))
            return None
        piece = lane.next_append(self.limit.bytes, queues=queues)
        if piece is not None:
            stamp(piece, *lane.producer, transactional=transaction is not None)
        return piece

    def on_outcome(self, batch: PendingBatch, outcome: Outcome) -> None:
        """Process the answer of one batch."""
        before = self.lane.records
        for action in self.lane.on_outcome(batch, outcome):
            self._events.perform(self, action)
        copied = self.lane.records - before
        if copied:
            self.attempts.acknowledged()
            self.limit.fitted(len(batch.payload))
            self.meter.merged(batch.merged_from)
            self._measure(copied)
            self._events.appended(self)
        elif outcome.kind is not OutcomeKind.APPENDED:
            self.health.append_failed(outcome.message)
        self._events.progressed(self)

    def _measure(self, copied: int) -> None:
        self.latency_ms += self.meter.copied(self.lane.newest_ms, copied)
        self.watch.appended_at_ms = self.meter.now_ms
        self.health.appended()
        if self.lane.source_next >= self.end.offset:
            self.watch.caught_up_ms = self.end.at_ms

    def begin(
        self, producer: Producer, found: ResumePoint, last: OffsetPair | None, *, alone: bool, read: KnownLeader
    ) -> None:
        """Begin as the owner, after the `last` copied record. The caller calls `lane.own` next.

        `read`: the target leader as it was known before the log was read.
        """
        topic_ids = self.leaders.source.topic_id, self.leaders.target.topic_id
        self.ownership.begin(producer, found.how, topic_ids, alone=alone, now_s=now_s())
        self.attempts.diverged(None)
        self.leaders.begin(found.target_next, read, found.behind.epoch)
        self.health.clear()
        self.positions.begin()
        self.blocks.begin()
        if self.syncs is not None:
            self.syncs.begin(last)

    def watch_source(self, stored: Position, end: int, end_at_ms: int) -> None:
        """Watch the source's end from the stored position, without an owner. `end`: as of `end_at_ms` (Unix ms)."""
        self.ownership.watch(stored.source_topic_id, stored.target_topic_id)
        self.end.reported(end, end_at_ms)
        self.health.clear()
        self.lane.watch(stored)

    def on_written(self) -> None:
        """Let appends that waited for a position continue, and fetches that waited for a block."""
        self._events.progressed(self)
        self._events.written(self)

    def fail(self, event: AnyEvent) -> None:
        """Note why the lane stopped, and stop it unless it has stopped already."""
        if self.lane.state not in (State.FAILED, State.STOPPED):
            self.lane.fail()
        self.health.explain(event.text())

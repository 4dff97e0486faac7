"""One lane with everything a driver keeps about it: its place in inbox and outbox, what it writes, its trouble."""

from collections.abc import Callable
from typing import Any

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
from engine.core.reports.lag import LagWatch
from engine.core.reports.source_end import SourceEnd
from engine.core.streams.block_stream import BlockStream
from engine.core.streams.fenced_stream import FencedStream, Write
from engine.core.streams.position_stream import PositionStream
from engine.core.streams.transaction import CommittedPositions
from engine.flow.lane.appender import Appender
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.ports.ports import Leader, PartitionFetch, Producer
from policies.model import LaneName, TopicPartition

Perform = Callable[["LaneDriver", Action], None]
NOBODY = Leader(-1, -1, "")
_MAY_DOUBLE = "a batch of unknown outcome is older than its leader remembers producers: only the log can tell"


def _no_transaction(_driver: "LaneDriver") -> None:
    """Most lanes copy without."""


class StreamAppender:
    """What the lane writes beside its records, its positions or the blocks of its map, as an appender."""

    def __init__(
        self,
        driver: "LaneDriver",
        stream: FencedStream[Any],
        partition: TopicPartition,
        perform: Perform,
        transactional_id: str = "",
    ) -> None:
        self.partition = partition
        self.transactional_id = transactional_id
        self.leader = NOBODY
        self.topic_id = ""
        """Of the topic that was there when its leader was looked up last."""
        self.stream = stream
        self._driver = driver
        self._perform = perform

    def next_parcel(self) -> Write | None:
        """Hand out the write that is due."""
        write: Write | None = self.stream.next_write()
        if write is None:
            self._driver.on_progress(self._driver)
        return write

    def on_outcome(self, parcel: Write, outcome: Outcome) -> None:
        """Take the answer; what waited for this to be durable may go on now."""
        action = self.stream.on_outcome(parcel, outcome)
        if action is not None:
            self._perform(self._driver, action)
        self._driver.on_written()


class LaneDriver:
    """A lane and its surroundings; also the appender of its target partition."""

    def __init__(
        self,
        lane: Lane,
        set_id: str,
        assignment_epoch: int,
        positions: PositionStream,
        positions_partition: TopicPartition,
        turn: int,
        perform: Perform,
        appended: Callable[["LaneDriver"], None],
        planned: Callable[["LaneDriver"], None],
        meter: CopierMetrics | None = None,
        syncs: SyncEmitter | None = None,
        transactional_id: str = "",
    ) -> None:
        self.lane = lane
        self.set_id = set_id
        self.assignment_epoch = assignment_epoch
        self.positions = positions
        self.turn = turn
        self.partition = lane.name.target
        self.transaction = positions if isinstance(positions, CommittedPositions) else None
        """The transaction that records and position are in; None where the lane copies without."""
        self.transactional_id = transactional_id if self.transaction is not None else ""
        self.on_progress: Callable[[LaneDriver], None] = _no_transaction
        """Called where the lane's transaction may go on."""
        self.blocks = BlockStream(lane, wall_ms)
        self.position_appender = StreamAppender(self, positions, positions_partition, perform, self.transactional_id)
        blocks_partition = TopicPartition(map_topic(lane.flow.source), positions_partition.partition)
        self.block_appender = StreamAppender(self, self.blocks, blocks_partition, perform)
        self.beside = self.position_appender, self.block_appender
        """Appenders beside the data."""
        self.producer: Producer | None = None
        self.source_leader = NOBODY
        self.target_leader = NOBODY
        self.verified_leader = NOBODY
        """The target leader that has everything it acknowledged, as far as we know."""
        self.doubted = False
        """Whether nothing may be appended until the target leader's end is known."""
        self.source_topic_id = ""
        self.target_topic_id = ""
        self.replica = -1
        self.want: PartitionFetch | None = None
        """What was said in the last fetch."""
        self.faults = 0
        """Look-ups of the leaders in a row that this lane's own faults asked for, and when the last one was."""
        self.fault_at_s = 0.0
        self.limit = BatchLimit()
        self.meter = meter or CopierMetrics()
        self.syncs = syncs
        """Which offset syncs are due; None where none are written."""
        self.watch = LagWatch(wall_ms())
        self.latency_ms = 0
        self.fault = ""
        self.had_failed = False
        """Whether the lane had failed when it was stopped for good: that is told to the end."""
        self.end = SourceEnd()
        self.log_start = -1
        self.divergence_offset, self.divergence_cause = -1, ""
        """Where the source's history parts from what was copied, as a fetch told, and its cause; -1: nowhere."""
        self.marker_owed = False
        """Whether the last commit was decided, and is not yet seen carried out (`flow/replication/marker_watch.py`)."""
        self.held_since: float | None = None
        self.held_told = False
        self.refused_told = False
        self.denied: dict[str, str] = {}
        """What the lane may not do just now, each told once, and why."""
        self.reason = ""
        self.resumed_by = ""
        self.position_read = False
        self.left_at: Position | None = None
        """Whether the stored position was read before there was an owner; what it is, where the last owner has left."""
        self.alone = False
        """Whether the lane was taken without a barrier: nobody has to be kept from its target partition."""
        self.reacquired = 0
        """Acquisitions since the last acknowledged record."""
        self.flaps = 0
        """Acquisitions that were lost again before long."""
        self.given_at_s = now_s()
        """Since when no former owner has a lease for the lane."""
        self.woken = False
        """Whether there was something to copy for a lane that had no owner."""
        self.owned_at_s = 0.0
        self.join_at_s = 0.0
        self.acquiring = False
        self.leaving = False
        self.flushed_bytes = 0
        self.eaten_told = False
        self.kept_alive_at = 0.0
        self._perform = perform
        self._appended = appended
        self._planned = planned

    @property
    def name(self) -> LaneName:
        """Source and target partition."""
        return self.lane.name

    @property
    def fenced_partitions(self) -> list[TopicPartition]:
        """The target partitions that the lane's barrier covers: wherever its producer id appends."""
        return [self.partition, *(appender.partition for appender in self.beside)]

    @property
    def kept_alive_partitions(self) -> list[TopicPartition]:
        """The target partitions where the fence is renewed: the copy itself only where it keeps somebody out."""
        return [one.partition for one in self.beside] if self.alone else self.fenced_partitions

    @property
    def appenders(self) -> tuple[Appender, ...]:
        """The lane itself, and those beside it."""
        return self, *self.beside

    def writer_of(self, what: str) -> StreamAppender:
        """Return the appender of a stream beside the data, by what it writes."""
        return next(one for one in self.beside if one.stream.what == what)

    @property
    def source_is_old(self) -> bool:
        """Whether the source leader we know is of an older epoch than what was fetched."""
        return self.is_older(self.lane.source_leader_epoch)

    def is_older(self, copied_epoch: int) -> bool:
        """Whether the source leader we know is of an older epoch than what was copied: somebody's metadata is old.

        A topic without an id may have been made anew, and then begins with low epochs.
        """
        leader = self.source_leader
        return bool(leader.topic_id) and 0 <= leader.epoch < copied_epoch

    @property
    def source_end(self) -> int:
        """Where the source partition ended when that was heard last; -1 where it never was."""
        return self.end.offset

    @property
    def source_node(self) -> int:
        """The broker to fetch from: the nearest replica if one was named, else the leader (KIP-392)."""
        return self.replica if self.replica >= 0 else self.source_leader.node

    def next_parcel(self) -> PendingBatch | None:
        """Hand out the next batch of records, stamped."""
        transaction = self.transaction
        if transaction is not None and not transaction.takes_records:
            self.on_progress(self)
            return None
        if self.doubted:
            return None
        lane = self.lane
        if lane.state is State.COPYING and lane.pieces.may_double(lane.forgets_before_ms):
            self._perform(self, Reacquire(_MAY_DOUBLE, settles=True))
            return None
        piece = self.lane.next_append()
        if piece is not None:
            stamp(piece, *self.lane.producer, transactional=transaction is not None)
        return piece

    def on_outcome(self, parcel: PendingBatch, outcome: Outcome) -> None:
        """Take the answer of one batch."""
        before = self.lane.records
        for action in self.lane.on_outcome(parcel, outcome):
            self._perform(self, action)
        copied = self.lane.records - before
        if copied:
            self.reacquired = 0
            self.limit.fitted(len(parcel.payload))
            self._measure(copied)
            self._appended(self)
        elif outcome.kind is not OutcomeKind.APPENDED:
            self.fault = outcome.message
        self.on_progress(self)

    def _measure(self, copied: int) -> None:
        self.latency_ms += self.meter.copied(self.lane.newest_ms, copied)
        self.watch.appended_at_ms = self.meter.now_ms
        self.fault = ""
        if self.lane.source_next >= self.end.offset:
            self.watch.caught_up_ms = self.end.at_ms

    def begin(
        self, producer: Producer, resumed_by: str, source_topic_id: str, target_topic_id: str, last: OffsetPair | None
    ) -> None:
        """Note who we are from now on, behind the `last` copied record; the lane itself is owned next."""
        self.producer, self.resumed_by, self.reason = producer, resumed_by, ""
        self.source_topic_id, self.target_topic_id = source_topic_id, target_topic_id
        self.owned_at_s = now_s()
        self.divergence_offset, self.divergence_cause = -1, ""
        self.verified_leader, self.doubted = self.target_leader, False
        self.positions.begin()
        self.blocks.begin()
        if self.syncs is not None:
            self.syncs.begin(last)

    def on_written(self) -> None:
        """Appends that waited for a position may go, and so may fetches that waited for a block."""
        self.on_progress(self)
        self._planned(self)

    def fail(self, event: AnyEvent) -> None:
        """Note why the lane stopped; the lane itself stops unless it has."""
        if self.lane.state not in (State.FAILED, State.STOPPED):
            self.lane.fail()
        self.reason = event.text()

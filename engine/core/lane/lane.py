"""The state machine of one lane: it takes events and returns actions.

A lane knows three places in the source log and the two matching places in the target log:

    source   |== acknowledged ==|-- in flight --|-- waiting --|.. to fetch ..
             position.source_next                             fetch_offset
    target   |== acknowledged ==|-- in flight --|
             position.target_next

It never skips, repeats or reorders records. Appends leave in order, one at a time until the broker has shown that it
knows the lane's producer (first acknowledgement, or a completed barrier), then up to `max_in_flight` of them. The first
failed append stops the window; the lane decides the next step only when every batch in flight has its outcome
(`engine/core/lane/outcome.py`). Up to five batches of unknown outcome are sent again byte for byte, in order, one at a
time. A leader does not recognise repeats of more: then the lane is acquired again, which reads the log. The driver
calls `next_append` when it has room in a request, reports outcomes by `on_outcome` in the order of the appends, and
performs the returned actions.
"""

from collections.abc import Sequence

import msgspec

from engine.core.events.events import TargetGap
from engine.core.lane import actions, states
from engine.core.lane.actions import (
    NOTHING,
    Action,
    Actions,
    Fail,
    Inspect,
    Reacquire,
    ReadTail,
    Retry,
    RetryRefused,
    Split,
)
from engine.core.lane.batch_limit import DEFAULT_BYTES
from engine.core.lane.batch_queue import BatchQueue
from engine.core.lane.echoes import Echoes
from engine.core.lane.left_out import kept_stretches, record_refused, refused_indexes, rest_piece
from engine.core.lane.narrow_window import NarrowWindow
from engine.core.lane.outcome import OUT_OF_ORDER, Outcome, OutcomeKind, RecoveryAction, recovery_action
from engine.core.lane.pending_batch import (
    REMEMBERED,
    BufferShare,
    Limits,
    Payload,
    PendingBatch,
    encoded_piece,
    passing_piece,
    split_piece,
    stretch_piece,
)
from engine.core.lane.rebatching import cuts, is_small, make_first
from engine.core.lane.sequence_map import SequenceMap
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapTail
from engine.core.position.parting import may_be_late
from engine.core.position.position import Position, Seen
from engine.core.position.resume import Unknown, read_tail
from engine.core.position.right_before import behind_in
from engine.core.position.target_tail import Tail
from engine.core.position.vacancy import RequestTrail
from engine.wire.batch import BatchHeader
from engine.wire.merging.survey import BatchStretch
from engine.wire.records import Encoded
from policies.model import FlowName, LaneName

_TODAY_MS = 2**62


class Lane:
    """The copy of one source partition to one target partition."""

    def __init__(self, flow: FlowName, name: LaneName, limits: Limits | None = None, echoes: Echoes = ()) -> None:
        self.flow, self.name, self.echoes = flow, name, echoes
        self.limits = limits or Limits()
        self.state = State.ACQUIRING
        self.paused = self.draining = False
        self.fetch_offset = -1
        self.records = self.wire_bytes = self.offsets = 0
        self.reencoded = self.skipped = self.fetched = self.left_out = 0
        self.newest_ms = -1
        self.position_version = self.markers = 0
        """`markers`: the number of this lane's commit markers at or after `target_next`, one per transaction."""
        self.source_leader_epoch = -1
        self.forgets_before_ms = -(2**63)
        self.pieces, self.trail = BatchQueue(), RequestTrail()
        self.map: MapTail | None = None
        """The end of the offset map; None while the lane has no owner."""
        self._outcomes: list[Outcome] = []
        self._window, self._narrow, self._is_fenced, self._behind = 1, NarrowWindow(), False, Seen()
        self.announced = False
        """Whether a position of this ownership is durable."""
        self._attempt, self._last_ms = 0, _TODAY_MS
        self._old_sequence = -1
        """The first sequence of the newest batch with records that are too old to be remembered; -1: none."""
        self._line: SequenceMap | None = None
        self._base: Position | None = None
        self._source_next = self._target_next = self._sequence = -1

    def own(self, position: Position, *, barrier_done: bool, alone: bool = False) -> None:
        """Start from a position of the present producer epoch; a barrier opens the window; `alone`: none was needed."""
        self.discard()
        self.state = states.step(self.state, states.LaneTrigger.OWNED)
        self._base = position.rooted()
        self._source_next, self._target_next = position.source_next, position.target_next
        self._sequence, self._behind = position.sequence, position.behind
        self._line = SequenceMap(position)
        self.map = MapTail(position.map_generation, position.map_start, position.map_blocks, position.map_tail)
        self.announced, self.markers = False, 0
        self.source_leader_epoch = position.source_leader_epoch
        self._is_fenced = barrier_done or alone
        self._window = self._most_in_flight if barrier_done else 1
        self.trail.begin(fenced=(barrier_done or alone) and not position.atomic, alone=alone)
        self._attempt, self._last_ms, self._old_sequence = 0, _TODAY_MS, -1  # a barrier is young
        self.fetch_offset = position.source_next
        self.position_version += 1

    def watch(self, position: Position) -> None:
        """Wait at a stored position without an owner; the first records fetched there make the lane acquire one."""
        self.state = states.step(self.state, states.LaneTrigger.RESTED)
        self._source_next = self.fetch_offset = position.source_next
        self._target_next, self.source_leader_epoch = position.target_next, position.source_leader_epoch

    def wake(self) -> None:
        """Leave WATCHING, because records to copy have arrived."""
        self.state = states.step(self.state, states.LaneTrigger.AWOKEN)

    def adopt_epoch(self, assignment_epoch: int) -> None:
        """Write another assignment epoch from the next position on: the owner stays, its assignment is newer."""
        self._base = msgspec.structs.replace(self._owned(), assignment_epoch=assignment_epoch)
        self.position_version += 1

    def disown(self) -> None:
        """Forget everything unacknowledged: the next owner (perhaps this copier) computes its resume point."""
        self.state = states.step(self.state, states.LaneTrigger.OWNERSHIP_LOST)
        self.discard()

    def fail(self) -> None:
        """Stop for good, for a reason found outside (source gap, corrupt batch, changed topic)."""
        self.state = states.step(self.state, states.LaneTrigger.FATAL)
        self.discard()

    def stop(self) -> None:
        """Stop for good, by request."""
        self.state = states.step(self.state, states.LaneTrigger.STOP)
        self.discard()

    def drain(self) -> None:
        """Fetch nothing more, forget batches that were not sent, and let the batches in flight finish."""
        self.draining = True
        self.rewind()

    def rewind(self) -> None:
        """Forget batches that were never sent and release their receive buffers; the lane fetches them again."""
        if self._line is None:
            return
        self.pieces.drop_unsent()
        self._continue_behind()

    def _continue_behind(self) -> None:
        """Continue fetching and counting after the last piece, or from the position if there is none."""
        last = self.pieces.last
        self.fetch_offset = last.source_next if last else self._source_next
        self._runs.cut(last.sequence + last.record_count if last else self._sequence)

    def discard(self) -> None:
        """Drop all batches, releasing their receive buffers."""
        self.pieces.drop_all()
        self._outcomes.clear()

    @property
    def producer(self) -> tuple[int, int]:
        """The producer id and epoch that the lane appends with."""
        base = self._owned()
        return base.producer_id, base.producer_epoch

    @property
    def position(self) -> Position:
        """The present position: everything acknowledged, with the runs from there on."""
        return msgspec.structs.replace(
            self._owned(),
            **self._map.fields,
            behind=self._behind,
            source_next=self._source_next,
            target_next=self._target_next,
            sequence=self._sequence,
            source_leader_epoch=self.source_leader_epoch,
            runs=self._runs.runs_from(self._sequence),
        )

    @property
    def source_next(self) -> int:
        """The next source offset to be acknowledged; -1 before the lane is owned or watches."""
        return self._source_next

    @property
    def target_next(self) -> int:
        """The target offset after the last acknowledged record; -1 before the lane is owned or watches."""
        return self._target_next

    @property
    def in_flight(self) -> int:
        """The number of batches sent without an outcome yet."""
        return len(self.pieces.in_flight)

    @property
    def queued_bytes(self) -> int:
        """Bytes fetched and not acknowledged."""
        return self.pieces.queued_bytes

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return self.pieces.last is None

    # --- source side -----------------------------------------------------------------------------------------

    @property
    def wants_fetch(self) -> bool:
        """Whether the lane has room for more source records."""
        if self.paused or self.draining:
            return False
        if self.state is State.WATCHING:
            return True
        return (
            self.state is State.COPYING
            and self.announced
            and self.pieces.unsent_bytes < self.limits.queue_bytes
            and self._runs.pending < self.limits.max_runs
            and self._map.pending < self.limits.max_map_runs
        )

    @property
    def listens(self) -> bool:
        """Whether the lane uses the answer of a fetch from `fetch_offset`."""
        return (self.state is State.COPYING or self.state is State.WATCHING) and not (self.paused or self.draining)

    @property
    def plan_needed(self) -> bool:
        """Whether appends wait for a position with new runs to be durable."""
        return self._line is not None and self._line.undurable_from is not None

    @property
    def sequences(self) -> SequenceMap:
        """The source offsets of the lane's sequences."""
        return self._runs

    @property
    def plan_version(self) -> int:
        """The version of the runs known now; `on_position_durable` takes it when a position written now is durable."""
        return self._runs.version

    def add_batch(self, header: BatchHeader, payload: Payload, lease: BufferShare) -> None:
        """Queue a batch that passes unchanged; `payload`: its bytes inside the leased receive buffer."""
        self._runs.extend(header.base_offset, header.record_count)
        self._queue(passing_piece(self._runs.sequence - header.record_count, header, payload, lease))

    def add_stretch(self, stretch: BatchStretch, payload: Payload, lease: BufferShare) -> None:
        """Queue consecutive batches that pass unchanged, or merged; `payload`: their bytes in the receive buffer."""
        self._runs.extend(stretch.base_offset, stretch.record_count)
        self._queue(stretch_piece(self._runs.sequence - stretch.record_count, stretch, payload, lease))

    def add_encoded(self, pieces: Sequence[Encoded], lease: BufferShare) -> None:
        """Queue the pieces of one re-encoded source batch; `lease`: of the buffer with the source batch."""
        self.reencoded += 1
        for piece in pieces:
            for (index, source), (end, _) in zip(piece.runs, (*piece.runs[1:], (piece.record_count, 0)), strict=True):
                self._runs.extend(source, end - index)
            self._queue(encoded_piece(self._runs.sequence - piece.record_count, piece, lease))

    def _queue(self, piece: PendingBatch) -> None:
        self.pieces.add(piece)
        self.fetched += piece.record_count
        self.fetch_offset = piece.source_next

    def skip_to(self, source_next: int) -> None:
        """Move past source offsets that are not copied: markers, aborted and emptied batches."""
        self.skipped += 1
        self.fetch_offset = source_next
        self._runs.skip(source_next)
        last = self.pieces.last
        if last is not None:
            last.source_next = source_next
        else:
            self.offsets += source_next - self._source_next
            self._source_next = source_next
            self.position_version += 1

    # --- target side -----------------------------------------------------------------------------------------

    def next_append(self, limit_bytes: int = DEFAULT_BYTES, *, queues: bool = False) -> PendingBatch | None:
        """Return the next batch to send; None while the window, a missing position or a failed append holds it back.

        Small batches that wait are merged to at most `limit_bytes`; while appends queue (`queues`), larger ones too.
        """
        pieces, rules = self.pieces, self.limits.rebatch
        if not pieces.in_flight and self._last_ms < self.forgets_before_ms:
            self._window = 1  # a broker that forgot the producer could refuse this batch and accept the next one
        if self.state is not State.COPYING or not pieces.waiting or len(pieces.in_flight) >= self._window:
            return None
        first = pieces.waiting[0]
        if self.trail.left or self._runs.holds_back(first.sequence + first.record_count):
            return None
        if rules is not None:
            if is_small(first, rules) and rules.waits(len(pieces.in_flight), pieces.unsent_bytes):
                return None
            first = make_first(pieces, rules.used(queues=queues), limit_bytes, self._runs.undurable_from)
        if first.max_timestamp < self.forgets_before_ms:
            self._old_sequence = first.sequence
        if len(pieces.in_flight) >= REMEMBERED and self._may_be_forgotten:
            return None
        return pieces.send_first()

    @property
    def _may_be_forgotten(self) -> bool:
        """Whether the leader may forget the producer before it has a batch that waits or is in flight.

        That is so until the batch behind the last one with old records is appended: if it were refused, the leader
        would take the next one.
        """
        return self._last_ms < self.forgets_before_ms or self._old_sequence >= self._sequence

    def on_outcome(self, piece: PendingBatch, outcome: Outcome) -> Actions:
        """Take the answer for the oldest unanswered append.

        An answer for any other piece came after the lane was disowned; it is ignored, because the resume reads the log.
        """
        answered, in_flight = len(self._outcomes), self.pieces.in_flight
        if answered >= len(in_flight) or in_flight[answered] is not piece:
            return NOTHING
        if self.state is State.COPYING:
            if outcome.kind is OutcomeKind.APPENDED:
                return self._acknowledge(self.pieces.take_acknowledged(), outcome.base_offset)
            self.state = states.step(self.state, states.LaneTrigger.APPEND_FAILED)
        self.trail.failed()
        self._outcomes.append(outcome)
        if len(self._outcomes) < len(in_flight):
            return NOTHING
        return (self._conclude(),)

    def _acknowledge(self, piece: PendingBatch, base_offset: int) -> Actions:
        known, end, markers = self.map, self._target_next, self.markers
        if base_offset < end:
            self.pieces.put_back(piece)
            return (Reacquire(f"the target appended at offset {base_offset}, below the acknowledged end {end}"),)
        self._take(piece)
        self._target_next, self._behind, self.markers = base_offset + piece.record_count, Seen(), 0
        if known is not None and piece.is_one_run:
            known.append(piece.source_base, base_offset, piece.record_count)
        else:
            self._map.append_all(self._runs.stretches(piece.sequence, piece.record_count), base_offset)
        self._runs.forget(self._sequence)
        self._narrow.acknowledged()
        self._window, self._attempt = self._most_in_flight, 0
        return actions.between(end, markers, base_offset)

    def _take(self, piece: PendingBatch) -> None:
        """Count a piece as copied and release its buffer."""
        self.offsets += piece.source_next - self._source_next
        self.newest_ms = self._last_ms = piece.max_timestamp
        self.trail.appended(is_old=self._last_ms < self.forgets_before_ms)
        self._source_next = piece.source_next
        self._sequence = piece.sequence + piece.record_count
        self.records += piece.record_count
        self.wire_bytes += len(piece.payload)
        self.position_version += 1
        self.pieces.settled(piece)

    def _conclude(self) -> Action:
        outcomes, self._outcomes = self._outcomes, []
        pieces, first = self.pieces, outcomes[0]
        if first.error_code == OUT_OF_ORDER and not pieces.in_flight[0].unknown:
            self._narrow.refused()
        self._window, self._attempt = 1, self._attempt + 1
        unsure = pieces.shed(outcomes)
        self._continue_behind()
        forgotten = pieces.older_than(self.forgets_before_ms)
        action = recovery_action(outcomes, forgotten=forgotten, unsure=unsure, wide=pieces.is_wide)
        if action is not RecoveryAction.REACQUIRE:
            pieces.detach()
        match action:
            case RecoveryAction.RESEND:
                self.state = states.step(self.state, states.LaneTrigger.RESEND)
                return Retry(self._attempt)
            case RecoveryAction.SETTLE if self._attempt <= self.limits.settlements:
                self.state = states.step(self.state, states.LaneTrigger.SETTLE)
                return ReadTail(self._target_next)
            case RecoveryAction.REFUSE:
                self.state = states.step(self.state, states.LaneTrigger.REFUSE)
                before = cuts(pieces.waiting[0], first)
                return Split(pieces.waiting[0], self._refuse(first), before) if before else self._refuse(first)
            case RecoveryAction.SPLIT:
                self.state = states.step(self.state, states.LaneTrigger.REFUSE)
                return Split(pieces.waiting[0], self._refuse(first))
            case one:  # REACQUIRE, or the log and the broker contradict each other: a new epoch decides
                reason, fenced = first.message or f"error {first.error_code}", first.kind is OutcomeKind.FENCED
                return Reacquire(reason, fenced=fenced, settles=one is RecoveryAction.REACQUIRE and not fenced)

    def _refuse(self, first: Outcome) -> RetryRefused:
        piece = self.pieces.waiting[0]
        offset = self._runs.source_of(piece.sequence + max(0, first.record_index))
        event = record_refused(self.flow, self.name.source, piece.source_base if offset is None else offset, first)
        return RetryRefused(self._attempt, event, piece, refused_indexes(piece, first))

    def may_leave_out(self, refused: PendingBatch) -> bool | None:
        """Whether a refused batch's sequences are free (`left_out.py`); None if the lane has dropped that batch."""
        if self.state is not State.REFUSED or not self.pieces.waiting or self.pieces.waiting[0] is not refused:
            return None
        return not any(piece.unknown for piece in self.pieces.waiting)

    def leave_out(self, refused: PendingBatch, indexes: Sequence[int], rest: Encoded | None) -> None:
        """Copy a refused batch without the records at `indexes`; ignored unless `may_leave_out`.

        `rest`: the other records as one batch; None: there are none. It takes the refused sequences, of which the
        broker has appended nothing; what follows is fetched again. What must be known of the records that are left out
        is durable by now, because the next position is behind them.
        """
        if not self.may_leave_out(refused):
            return
        kept = kept_stretches(self._runs.stretches(refused.sequence, refused.record_count), indexes)
        made = [] if rest is None else [rest_piece(refused, rest, kept)]
        self.pieces.drop_all()
        self._continue_behind()
        for source, count in kept:
            self._runs.extend(source, count)
        for piece in made:
            self._queue(piece)
        self.skip_to(refused.source_next)
        self.left_out += len(indexes)
        self._attempt = 0

    def on_split(self, whole: PendingBatch, parts: Sequence[Encoded]) -> None:
        """Replace the refused batch by smaller ones with the same sequences; ignored if the lane dropped that batch."""
        waiting = self.pieces.waiting
        if waiting and waiting[0] is whole:
            self.pieces.split_first(split_piece(whole, parts, self._source_at))

    def on_retry(self) -> None:
        """Send again after a back-off; no effect if the lane was disowned or stopped during the back-off."""
        if self.state in (State.WAITING, State.REFUSED):
            self.state = states.step(self.state, states.LaneTrigger.RETRY)

    def on_tail(self, tail: Tail) -> Actions:
        """Settle unknown outcomes by the log: acknowledge the batches that it holds, send the others again."""
        if self.state is not State.SETTLING:
            return NOTHING
        if may_be_late(self.position, tail):
            return (Reacquire("the target lost records that it had acknowledged"),)
        found = read_tail(self.position, tail)
        if isinstance(found, Unknown):
            return (self._no_end(found.expected, found.found, found.cause),)
        waiting = self.pieces.waiting
        while waiting and waiting[0].sequence + waiting[0].record_count <= found.sequence:
            self._take(waiting.popleft())
        if found.sequence > self._sequence:
            return (self._no_end(self._sequence, found.sequence, "the log holds only a part of a batch of this lane"),)
        self.pieces.sought()
        for run in found.copied:
            self._map.append(*run)
        self._behind = behind_in(tail, found.target_next, self.producer, self._behind)
        self._target_next, self.markers, self.position_version = found.target_next, 0, self.position_version + 1
        self.state = states.step(self.state, states.LaneTrigger.SETTLED)
        retry = Retry(self._attempt)
        return (retry, Inspect(found.foreign[0][0], found.foreign[-1][1])) if found.foreign else (retry,)

    def on_position_durable(self, plan_version: int) -> None:
        """Note that a position written at `plan_version` is durable: the lane may append after its runs."""
        self.announced = True
        self._runs.on_durable(plan_version)

    def _no_end(self, expected: int, found: int, cause: str) -> Fail:
        self.fail()
        return Fail(TargetGap(flow=self.flow, lane=self.name.source, expected=expected, found=found, cause=cause))

    def _source_at(self, sequence: int) -> int:
        source = self._runs.source_of(sequence)
        assert source is not None, f"{self.name}: sequence {sequence} is before the position"
        return source

    @property
    def _most_in_flight(self) -> int:
        """The most appends in flight: without a fence nothing makes the log's tail final, so repeats must be known."""
        most = self.limits.max_in_flight
        return most if self._is_fenced and not self._narrow.is_on else min(most, REMEMBERED)

    @property
    def _runs(self) -> SequenceMap:
        assert self._line is not None, f"{self.name}: not owned yet"
        return self._line

    @property
    def _map(self) -> MapTail:
        assert self.map is not None, f"{self.name}: not owned yet"
        return self.map

    def _owned(self) -> Position:
        assert self._base is not None, f"{self.name}: not owned yet"
        return self._base

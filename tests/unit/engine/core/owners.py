"""One owner of a simulated lane, with its connections, driven as `engine/flow` drives a real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.lane.actions import Action, Fail, Inspect, Reacquire, ReadTail, Retry, RetryRefused, Split, Unmarked
from engine.core.lane.intake import stamp, work_for
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome
from engine.core.lane.pending_batch import REMEMBERED, Limits, PendingBatch
from engine.core.lane.states import State
from engine.core.lane.stretch_intake import take_in_stretches
from engine.core.offset_map.map_runs import MapStart, MapTail
from engine.core.position.map_resume import map_reaches, resumed_map, unfolded
from engine.core.position.parting import may_be_late
from engine.core.position.position import Behind, Position, Seen
from engine.core.position.position_keys import PositionKeys
from engine.core.position.resume import ResumePoint
from engine.core.position.right_before import ends_as_left
from engine.core.position.stored_tail import last_counted, read_stored_tail, undone_from
from engine.core.position.tail_end import from_end
from engine.core.position.target_tail import Tail, TailBatch
from engine.core.position.vacancy import is_vacant, may_be_vacant, stands_as_left
from engine.core.streams.block_stream import BlockStream
from engine.core.streams.fenced_stream import FencedStream
from engine.core.streams.position_stream import PositionStream
from engine.core.streams.transaction import CommittedPositions, TransactionStage, TransactionStep
from engine.wire.batch import read_header
from engine.wire.merging.cut import cut, halves, without
from engine.wire.records import reencode
from policies.model import FlowName, LaneName, TopicPartition
from tests.fakes.source_log import BORN_MS
from tests.fakes.target_log import EXPIRATION_MS, NONE, TargetLog, decoded
from tests.unit.engine.core.connections import Connection, Lease, Request
from tests.unit.engine.core.coordinator import FENCED, OK

FLOW = FlowName("A", "B")
NAME = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
PRODUCER_ID = 41
LARGE = 1 << 20
NOW_MS = BORN_MS + 2 * EXPIRATION_MS
"""Today: what was born at BORN_MS is older than a broker remembers producers."""


if TYPE_CHECKING:
    from tests.unit.engine.core.simulation import World


class Owner:
    """One copier's view of the lane, driven as `engine/flow` drives it."""

    remembers = False
    """Whether it takes for granted that brokers remember producers of old records."""

    def __init__(self, world: World, assignment_epoch: int, *, watches: bool) -> None:
        self.world, self.assignment_epoch = world, assignment_epoch
        limits = Limits(
            queue_bytes=3000, max_runs=6, max_map_runs=12, max_in_flight=world.window, rebatch=world.rebatch
        )
        self.lane = Lane(FLOW, NAME, limits)
        self.atomic = world.switches()
        self.positions = self._positions()
        self.blocks = BlockStream(self.lane, lambda: NOW_MS)
        if world.aged and not self.remembers:
            self.lane.forgets_before_ms = NOW_MS - EXPIRATION_MS // 2
        self.data = Connection(world, world.target, self._on_data)
        self.places = Connection(world, world.positions, self._on_position)
        self.maps = Connection(world, world.blocks, self._on_block)
        self.connections = self.data, self.places, self.maps
        self.fetched: tuple[int, bytes, list[tuple[int, int]]] | None = None
        self.actions: list[Action] = []
        self.reads: list[Callable[[], None]] = []
        self.todo: list[Callable[[], None]] = []
        self.epoch = -1
        self.fenced = False
        self.max_batch_bytes = LARGE
        self.gone = self.woken = False
        self._stored: Position | None = None
        self._before: tuple[Position | None, int] | None = None
        self.alone = False
        if watches:
            self.todo = [self._read_position, self._watch_or_acquire]
        else:
            self.acquire(again=False)

    def _positions(self) -> PositionStream:
        key = PositionKeys("A").encode(NAME.source)
        if self.atomic:
            return CommittedPositions(self.lane, key, lambda: NOW_MS, 1.0)
        return PositionStream(self.lane, key, lambda: NOW_MS)

    # --- ownership -------------------------------------------------------------------------------------------

    def _watch_or_acquire(self) -> None:
        stored, world = self._stored, self.world
        at_end = stored is not None and stored.source_next == world.source.end
        whole = stored is not None and 0 <= world.target.end - stored.target_next <= stored.atomic
        if stored is not None and at_end and whole and self._is_kept(stored):
            world.count("watched")
            self.lane.watch(stored)
        else:
            self.acquire(again=False)

    def _is_kept(self, stored: Position) -> bool:
        last = self.world.target.headers(last_counted(stored))
        return not any(batch.is_open for batch in last) and undone_from(stored, last) is None

    def acquire(self, *, again: bool) -> None:
        self.todo = [
            *([self._check] if again else []),
            lambda: self._look_before(again=again),
            self._init,
            *(lambda log=log: self._mark(log) for log in (self.world.target, self.world.positions, self.world.blocks)),
            self._read_position,
            self._read_tail,
        ]

    def _check(self) -> None:
        self._read_position()

    def _look_before(self, *, again: bool) -> None:
        """Look for an owner before there is an epoch; one that was woken takes what it read before it watched."""
        stored, end = self._stored if self.woken else self.world.stored(), self.world.target.end
        fresh = self.epoch < 0 and not (again or self.atomic)
        self._before = (stored, end) if fresh and may_be_vacant(stored, end) else None
        self.alone = False

    def _init(self) -> None:
        self.epoch = self.world.coordinator.init()
        if self.epoch < 0:
            self.todo.insert(0, self._init)
        elif self._before is not None and is_vacant(self._before[0], PRODUCER_ID, self.epoch, self._before[1]):
            self.world.count("first taken without a barrier" if self._before[0] is None else "left without a barrier")
            self.alone = True
            del self.todo[:3]

    def _mark(self, log: TargetLog) -> None:
        if log.marker(PRODUCER_ID, self.epoch) != NONE:
            self.acquire(again=True)  # a newer owner was quicker: the coordinator refuses

    def _read_position(self) -> None:
        stored = self.world.stored()
        if stored is not None and stored.assignment_epoch > self.assignment_epoch:
            self.leave()
        self._stored = stored

    def _read_tail(self) -> None:
        log, stored = self.world.target, self._stored
        if stored is None:
            found = ResumePoint(source_next=0, target_next=log.end, sequence=0, how="start", tail_records=0)
        else:
            first = last_counted(stored) if stored.atomic else max(0, stored.target_next - 1)
            batches = tuple(log.headers(first))
            if may_be_late(stored, Tail(log_start=0, end=log.end, batches=batches)):
                batches = tuple(log.headers(0))
            if stored.atomic and undone_from(stored, batches) is not None:
                self.world.count("undone")
                batches = tuple(log.headers(0))
            if any(batch.producer_id == PRODUCER_ID and batch.producer_epoch > self.epoch for batch in batches):
                return self.acquire(again=True)  # a former owner came back behind our barrier
            tail = Tail(log_start=0, end=log.end, batches=batches)
            read = read_stored_tail(stored, tail)
            if read.target_end >= 0 and not map_reaches(stored, read.target_end):
                self.world.count("unfolded")
                stored = unfolded(stored, self.world.map_blocks(), read.target_end)
                read = read_stored_tail(stored, tail)
            assert isinstance(read, ResumePoint), read
            found = read
            self._know_from_end(stored, batches, found)
        if self.alone and not (
            is_vacant(stored, PRODUCER_ID, self.epoch, log.end) and stands_as_left(stored, found, log.end)
        ):
            self.world.count("not as it was left")
            return self.acquire(again=True)
        known = resumed_map(stored, found, 1)
        return self.own(found.source_next, self.epoch, 0, barrier_done=not self.alone, known=known)

    def _know_from_end(self, stored: Position, batches: tuple[TailBatch, ...], found: ResumePoint) -> None:
        """Whatever part of the tail tells the rest of it must tell it right."""
        for at in range(1, 0 if stored.atomic else len(batches)):
            whole = from_end(stored, batches[at:])
            if whole is not None:
                self.world.count("tails from their end")
                assert read_stored_tail(stored, Tail(log_start=0, end=self.world.target.end, batches=whole)) == found

    def own(
        self, source_next: int, epoch: int, sequence: int, *, barrier_done: bool, known: MapTail | None = None
    ) -> None:
        known = known or MapTail(1, MapStart(0, 0, first=True), 0, ())
        self.epoch, self.fenced, self.todo = epoch, barrier_done, []
        self.positions.begin()
        self.blocks.begin()
        self.lane.own(
            Position(
                source_next=source_next,
                target_next=self.world.target.end,
                sequence=sequence,
                producer_id=PRODUCER_ID,
                producer_epoch=epoch,
                runs=((sequence, source_next),),
                assignment_epoch=self.assignment_epoch,
                deployment_id="d",
                map_generation=known.generation,
                map_blocks=known.blocks,
                map_source=known.start.source,
                map_target=known.start.target,
                map_first=known.start.first,
                map_tail=known.runs,
                atomic=self.atomic,
                behind=self._behind(),
            ),
            barrier_done=barrier_done,
            alone=self.alone,
        )

    def _behind(self) -> Seen:
        log, stored = self.world.target, self._stored
        if self.alone:
            return Seen() if stored is None or stored.target_next != log.end else stored.behind
        last = log.headers(log.end - 1)
        is_mine = bool(last) and last[-1].is_marker and last[-1].producer_epoch == self.epoch
        return Seen(Behind.MARKER if is_mine else Behind.NOT_SAID)

    def check_end(self) -> None:
        """A log that has lost nothing ends as the lane left it."""
        if self.lane.state is State.COPYING and self.lane.target_next > 0:
            position = self.lane.position
            last = self.world.target.headers(position.target_next - 1)
            has_lost = bool(last) and last[0].is_marker and last[0].producer_epoch > self.epoch
            self.world.count("ends as left")
            assert has_lost or ends_as_left(position, last), position  # it has lost a race of two barriers

    def leave(self) -> None:
        """Die, or stand down: requests on their way stay on their way."""
        if self.gone:
            return
        self.check_end()
        self.gone = True
        self.todo, self.actions, self.reads = [], [], []
        self.lane.stop()
        for connection in self.connections:
            connection.cut(lost=False)

    # --- traffic ---------------------------------------------------------------------------------------------

    def fetch(self, batches: int) -> None:
        offset = self.lane.fetch_offset
        self.fetched = (offset, *self.world.fetch(offset, batches))

    def take(self, cut_bytes: int) -> None:
        assert self.fetched is not None
        (offset, fetched, aborted), self.fetched = self.fetched, None
        if self.lane.state is State.WATCHING and self.lane.fetch_offset == offset and fetched:
            self.world.count("woken")
            self.lane.wake()
            self.woken = True
            self.acquire(again=False)
        if self.lane.state is not State.COPYING or self.lane.fetch_offset != offset or not fetched:
            return
        first = read_header(memoryview(fetched), 0).size_bytes
        buffer = bytearray(fetched[: max(first, len(fetched) - cut_bytes)])
        lease = Lease(self.world, buffer)
        view, limit = memoryview(buffer), self.max_batch_bytes
        work = work_for(self.lane, view, 0, len(view), aborted=aborted, max_batch_bytes=limit)
        take_in_stretches(self.lane, work, lease)
        lease.release()

    def carry(self) -> bool:
        """Go on with the transaction, if there is something to do; the coordinator may keep its answer to itself."""
        positions, coordinator = self.positions, self.world.coordinator
        if not isinstance(positions, CommittedPositions):
            return False
        now_s = float(self.world.clock)
        self._mend(positions)
        step = positions.step(now_s, caught_up=self.lane.source_next >= self.world.source.end)
        if step is TransactionStep.WRITE:
            return True
        if positions.stage not in (TransactionStage.BEGINNING, TransactionStage.ENDING) or self.todo:
            return False
        if positions.stage is TransactionStage.BEGINNING:
            logs = [self.world.positions, *([self.world.target] if positions.with_records else [])]
            answer = coordinator.add(self.epoch, [*logs, *([self.world.blocks] if positions.whole else [])])
        else:
            answer = coordinator.commit(self.epoch)
        if answer == FENCED:
            self.perform(Reacquire("the coordinator knows another epoch", fenced=True))
        if answer != OK or (not self.world.calm and self.world.random.random() < 0.1):
            return False
        if positions.stage is TransactionStage.BEGINNING:
            positions.begun(now_s)
        else:
            self.world.count("commits")
            positions.committed(now_s)
        return True

    def _mend(self, positions: CommittedPositions) -> None:
        """Commit again where the target still holds open what was committed, as `marker_watch` finds out."""
        is_open = self.world.target.open_since(PRODUCER_ID) >= 0
        if (
            is_open
            and positions.stage is TransactionStage.CLOSED
            and (self.world.calm or self.world.random.random() < 0.1)
        ):
            positions.refresh()

    def free_buffers(self) -> None:
        """Take the batches in flight out of the receive buffers, as an outbox does whose broker is silent."""
        for index, piece in enumerate(self.lane.pieces.in_flight):
            if index < REMEMBERED:
                piece.detach()
            else:
                piece.let_go()

    def send_data(self) -> bool:
        if isinstance(self.positions, CommittedPositions) and not self.positions.takes_records:
            return False
        piece = self.lane.next_append(self.max_batch_bytes, queues=self.world.target_queues)
        if piece is None:
            return False
        if piece.merged_from:
            self.world.count("merged batches")
        assert self.lane.in_flight <= self.world.window
        if self.lane.in_flight == REMEMBERED + 1:
            self.world.count("windows wider than leaders remember")
        stamp(piece, *self.lane.producer, transactional=self.atomic)
        self.data.queue.append(Request(piece))
        return True

    def send_position(self) -> bool:
        write = self.positions.next_write()
        if write is None:
            return False
        self.world.count("announced" if write.announces else "positions")
        self.places.queue.append(Request(write))
        return True

    def send_block(self) -> bool:
        if self.lane.map is not None:
            self.lane.map.carried()  # as an offset sync does
        write = self.blocks.next_write()
        if write is None:
            return False
        self.world.count("blocks")
        self.maps.queue.append(Request(write))
        return True

    def _on_data(self, request: Request, outcome: Outcome) -> None:
        assert isinstance(request.batch, PendingBatch)
        self.actions += self.lane.on_outcome(request.batch, outcome)

    def _on_position(self, request: Request, outcome: Outcome) -> None:
        self._on_written(self.positions, request, outcome)

    def _on_block(self, request: Request, outcome: Outcome) -> None:
        self._on_written(self.blocks, request, outcome)

    def _on_written(self, stream: FencedStream[Any], request: Request, outcome: Outcome) -> None:
        action = stream.on_outcome(request.batch, outcome)
        if action is not None:
            self.actions.append(action)

    # --- actions ---------------------------------------------------------------------------------------------

    def perform(self, action: Action) -> None:
        match action:
            case Retry():
                self._retry()
            case RetryRefused():
                self._refused(action)
            case Split():
                self._split(action)
            case ReadTail():
                end = self.world.target.end
                self.reads.append(lambda: self._settle(action.target_offset, end, self.epoch))
            case Unmarked():
                self.world.count("unmarked")
            case Inspect():
                batches = self.world.target.headers(action.first)
                if any(self._is_foreign(batch) and batch.base_offset <= action.last for batch in batches):
                    assert self.world.has_foreign
            case Reacquire():
                if self.lane.state in (State.COPYING, State.TROUBLED, State.SETTLING, State.WAITING, State.REFUSED):
                    self.world.count("acquired again")
                    self.lane.disown()
                    self.acquire(again=True)
            case Fail():
                raise AssertionError(action.event.text())

    def _is_foreign(self, batch: TailBatch) -> bool:
        return not batch.is_control and batch.producer_id != PRODUCER_ID

    def _retry(self) -> None:
        self.lane.on_retry()
        self.positions.on_retry()
        self.blocks.on_retry()

    def _refused(self, action: RetryRefused) -> None:
        """Try again, or leave out what is refused, as `flow/quarantine` does: what is left out is durable before."""
        piece = action.piece
        if not self.world.leaves_out:
            return self._retry()
        if not action.indexes:
            return self._halve(piece)
        return self.reads.append(lambda: self._set_aside(action, self.epoch))

    def _halve(self, piece: PendingBatch) -> None:
        if self.lane.may_leave_out(piece) is not None:
            view = memoryview(piece.payload)
            self.lane.on_split(piece, cut(view, read_header(view, 0), halves(piece.record_count), "t", 0))
        self._retry()

    def _set_aside(self, action: RetryRefused, epoch: int) -> None:
        """The first half: the records are durable elsewhere. The owner may die before the second one."""
        may = self.lane.may_leave_out(action.piece)
        if epoch != self.epoch or may is None:
            return None
        if not may:
            self.world.count("acquired again to leave out")
            return self.perform(Reacquire("a copy of the batch may still arrive", settles=True))
        keys = [record.key for record in decoded(bytes(action.piece.payload))]
        self.world.set_aside.update(int(keys[index] or b"") for index in action.indexes)
        return self.reads.append(lambda: self._leave_out(action))

    def _leave_out(self, action: RetryRefused) -> None:
        piece = action.piece
        if self.lane.may_leave_out(piece):
            self.world.count("left out of a batch" if piece.record_count > 1 else "left out alone")
            view = memoryview(piece.payload)
            self.lane.leave_out(piece, action.indexes, without(view, read_header(view, 0), action.indexes, "t", 0))
            self._retry()

    def _split(self, action: Split) -> None:
        if action.before and self.world.leaves_out:
            return self._refused(action.refused)
        if action.before:
            self.world.count("cuts around a record")
            payload = memoryview(action.piece.payload)
            if self.lane.state is State.REFUSED:
                self.lane.on_split(action.piece, cut(payload, read_header(payload, 0), action.before, "t", 0))
                self.lane.on_retry()
            return None
        self.world.count("splits")
        self.max_batch_bytes = self.world.target.max_bytes
        view = memoryview(action.piece.payload)
        parts = reencode(view, 0, read_header(view, 0), "t", 0, wanted_offset=0, max_batch_bytes=self.max_batch_bytes)
        if self.lane.state is not State.REFUSED:
            return None
        if len(parts) > 1:
            self.lane.on_split(action.piece, parts)
        elif self.world.leaves_out:
            return self._refused(action.refused)
        return self.lane.on_retry()

    def _settle(self, first: int, end: int, epoch: int) -> None:
        """The second half of a read: appends may have come between the end offset and the headers."""
        self.world.count("settles")
        if epoch == self.epoch:
            batches = tuple(self.world.target.headers(first))
            self.actions += self.lane.on_tail(Tail(log_start=0, end=end, batches=batches))

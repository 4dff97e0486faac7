"""A lane among everything that can go wrong, interleaved at random: brokers, connections, owners, all kept in memory.

What happens next is drawn from a seed, so a failing seed fails again. Buffers are overwritten when their last lease
goes, requests read their bytes as late as a kernel might, and a cut connection may leave requests that the broker
still works through later, even behind a new owner's barrier.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random

from engine.core.actions import Action, Fail, Inspect, Reacquire, ReadTail, Retry, RetryRefused, Split
from engine.core.intake import stamp, take_in
from engine.core.lane import Lane
from engine.core.outcome import UNKNOWN_OUTCOME, Outcome
from engine.core.piece import Limits, Piece
from engine.core.position import ForeignPosition, Position, decode_value, encode_key
from engine.core.position_stream import PositionStream, PositionWrite
from engine.core.resume import Found, Tail, TailBatch, read_tail
from engine.core.states import State
from engine.kafka.faults import append_kind
from engine.wire.batch import read_header
from engine.wire.records import reencode
from policies.model import FlowName, LaneName, TopicPartition
from tests.fakes.source_log import COMMIT, SourceLog
from tests.fakes.target_log import NONE, SPAN, TargetLog

FLOW = FlowName("A", "B")
NAME = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
PRODUCER_ID = 41
_LARGE = 1 << 20


class Lease:
    """Shares of one receive buffer; behind the last one the bytes are garbage."""

    def __init__(self, world: "World", buffer: bytearray) -> None:
        self.shares, self.buffer, self._world = 1, buffer, world
        world.leased += 1

    def retain(self) -> "Lease":
        assert self.shares > 0
        self.shares += 1
        return self

    def release(self) -> None:
        assert self.shares > 0
        self.shares -= 1
        if self.shares == 0:
            self.buffer[:] = b"\xee" * len(self.buffer)
            self._world.leased -= 1


class Request:
    """One batch on a connection."""

    def __init__(self, parcel: Piece | PositionWrite) -> None:
        self.parcel = parcel
        self.lease = parcel.lease.retain() if parcel.lease is not None else None
        self.payload: bytes | bytearray | memoryview = parcel.payload

    def let_go(self) -> None:
        if self.lease is not None:
            self.lease.release()


class Connection:
    """Requests in order, answers in order; `log` is where the broker appends them."""

    def __init__(self, world: "World", log: TargetLog, deliver: Callable[[Request, Outcome], None]) -> None:
        self.world, self.log, self._deliver = world, log, deliver
        self.queue: deque[Request] = deque()
        self.answers: deque[tuple[Request, Outcome]] = deque()

    def serve(self) -> None:
        """Let the broker work on the oldest request."""
        request = self.queue.popleft()
        self.answers.append((request, self.world.answer(self.log, bytes(request.payload))))

    def deliver(self) -> None:
        """Hand over the oldest answer."""
        request, outcome = self.answers.popleft()
        self._deliver(request, outcome)
        request.let_go()

    def cut(self, *, lost: bool) -> None:
        """Lose the connection: no answer arrives any more; the broker may still work on what it received."""
        unanswered = [request for request, _ in self.answers] + list(self.queue)
        if not lost:
            self.world.leave_ghost(self.log, [bytes(request.payload) for request in self.queue])
        self.queue.clear()
        self.answers.clear()
        for request in unanswered:
            self._deliver(request, UNKNOWN_OUTCOME)
            request.let_go()


class Owner:
    """One copier's view of the lane, driven as `engine/flow` drives it."""

    def __init__(self, world: "World", assignment_epoch: int) -> None:
        self.world, self.assignment_epoch = world, assignment_epoch
        self.lane = Lane(FLOW, NAME, Limits(queue_bytes=3000, max_runs=6))
        self.positions = PositionStream(self.lane, encode_key("A", NAME.source), lambda: 1_700_000_000_000)
        self.data = Connection(world, world.target, self._on_data)
        self.places = Connection(world, world.positions, self._on_position)
        self.fetched: tuple[int, bytes, list[tuple[int, int]]] | None = None
        self.actions: list[Action] = []
        self.reads: list[Callable[[], None]] = []
        self.todo: list[Callable[[], None]] = []
        self.epoch = -1
        self.fenced = False
        self.max_batch_bytes = _LARGE
        self.gone = False
        self._stored: Position | None = None
        self.acquire(again=False)

    # --- ownership -------------------------------------------------------------------------------------------

    def acquire(self, *, again: bool) -> None:
        self.todo = [
            *([self._check] if again else []),
            self._init,
            lambda: self._mark(self.world.target),
            lambda: self._mark(self.world.positions),
            self._read_position,
            self._read_tail,
        ]

    def _check(self) -> None:
        self._read_position()

    def _init(self) -> None:
        self.world.epoch += 1
        self.epoch = self.world.epoch

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
            source_next = 0
        else:
            tail = Tail(log_start=0, end=log.end, batches=tuple(log.headers(stored.target_next)))
            found = read_tail(stored, tail)
            assert isinstance(found, Found), found
            source_next = found.source_next
        self.own(source_next, self.epoch, 0, barrier_done=True)

    def own(self, source_next: int, epoch: int, sequence: int, *, barrier_done: bool) -> None:
        self.epoch, self.fenced, self.todo = epoch, barrier_done, []
        self.positions.begin()
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
            ),
            barrier_done=barrier_done,
        )

    def leave(self) -> None:
        """Die, or stand down: requests on their way stay on their way."""
        self.gone = True
        self.todo, self.actions, self.reads = [], [], []
        self.lane.stop()
        for connection in (self.data, self.places):
            connection.cut(lost=False)

    # --- traffic ---------------------------------------------------------------------------------------------

    def fetch(self, batches: int) -> None:
        offset = self.lane.fetch_offset
        self.fetched = (offset, *self.world.source.fetch(offset, batches))

    def take(self, cut_bytes: int) -> None:
        assert self.fetched is not None
        (offset, fetched, aborted), self.fetched = self.fetched, None
        if self.lane.state is not State.COPYING or self.lane.fetch_offset != offset or not fetched:
            return
        first = read_header(memoryview(fetched), 0).size_bytes
        buffer = bytearray(fetched[: max(first, len(fetched) - cut_bytes)])
        lease = Lease(self.world, buffer)
        take_in(
            self.lane,
            memoryview(buffer),
            0,
            len(buffer),
            aborted=aborted,
            max_batch_bytes=self.max_batch_bytes,
            lease=lease,
        )
        lease.release()

    def send_data(self) -> bool:
        piece = self.lane.next_append()
        if piece is None:
            return False
        assert self.lane.in_flight <= 5
        stamp(piece, *self.lane.producer)
        self.data.queue.append(Request(piece))
        return True

    def send_position(self) -> bool:
        write = self.positions.next_write()
        if write is None:
            return False
        self.places.queue.append(Request(write))
        return True

    def _on_data(self, request: Request, outcome: Outcome) -> None:
        assert isinstance(request.parcel, Piece)
        self.actions += self.lane.on_outcome(request.parcel, outcome)

    def _on_position(self, request: Request, outcome: Outcome) -> None:
        assert isinstance(request.parcel, PositionWrite)
        action = self.positions.on_outcome(request.parcel, outcome)
        if action is not None:
            self.actions.append(action)

    # --- actions ---------------------------------------------------------------------------------------------

    def perform(self, action: Action) -> None:
        match action:
            case Retry() | RetryRefused():
                self.lane.on_retry()
                self.positions.on_retry()
            case Split():
                self._split(action)
            case ReadTail():
                end = self.world.target.end
                self.reads.append(lambda: self._settle(action.target_offset, end, self.epoch))
            case Inspect():
                batches = self.world.target.headers(action.first)
                if any(self._is_foreign(batch) and batch.base_offset <= action.last for batch in batches):
                    self.lane.on_foreign(action.first, action.last, stop=False)
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

    def _split(self, action: Split) -> None:
        self.world.count("splits")
        self.max_batch_bytes = self.world.target.max_bytes
        view = memoryview(action.piece.payload)
        parts = reencode(view, 0, read_header(view, 0), "t", 0, wanted_offset=0, max_batch_bytes=self.max_batch_bytes)
        if self.lane.state is not State.REFUSED:
            return
        if len(parts) > 1:
            self.lane.on_split(action.piece, parts)
        self.lane.on_retry()

    def _settle(self, first: int, end: int, epoch: int) -> None:
        """The second half of a read: appends may have come between the end offset and the headers."""
        self.world.count("settles")
        if epoch == self.epoch:
            batches = tuple(self.world.target.headers(first))
            self.actions += self.lane.on_tail(Tail(log_start=0, end=end, batches=batches))


class World:
    """Source, target, positions, and whoever owns the lane."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.source, self.target, self.positions = SourceLog(), TargetLog(), TargetLog()
        self.ghosts: list[tuple[TargetLog, deque[bytes]]] = []
        self.epoch = 0
        self.leased = 0
        self.calm = False
        self.has_foreign = False
        self.ever_wanted: set[int] = set()
        self.kills = 0
        self.seen: dict[str, int] = {}
        self.owners: list[Owner] = []
        first = Owner(self, 1)
        self.owners.append(first)
        if seed % 3 == 0:  # without a barrier, near the wrap: what a broker without producer state accepts
            sequence = SPAN - 1 - self.random.randrange(12)
            first.own(0, 0, sequence, barrier_done=False)

    def count(self, what: str) -> None:
        """Note that something happened."""
        self.seen[what] = self.seen.get(what, 0) + 1

    # --- brokers ---------------------------------------------------------------------------------------------

    def answer(self, log: TargetLog, payload: bytes) -> Outcome:
        chance = 1.0 if self.calm else self.random.random()
        if chance < 0.03:
            return Outcome(append_kind(6), error_code=6)
        if chance < 0.05:
            return Outcome(append_kind(7), error_code=7)
        code, base = log.append(payload)
        if code == NONE and chance < 0.08:
            return Outcome(append_kind(20), error_code=20)
        return Outcome(append_kind(code), base, code) if code == NONE else Outcome(append_kind(code), error_code=code)

    def leave_ghost(self, log: TargetLog, payloads: list[bytes]) -> None:
        if payloads:
            self.ghosts.append((log, deque(payloads)))

    def _serve_ghost(self) -> None:
        ghost = self.random.choice(self.ghosts)
        self.answer(ghost[0], ghost[1].popleft())
        if not ghost[1]:
            self.ghosts.remove(ghost)

    def _restart(self, log: TargetLog) -> None:
        log.restart()
        self.ghosts = [ghost for ghost in self.ghosts if ghost[0] is not log]
        for owner in self.owners:
            for connection in (owner.data, owner.places):
                if connection.log is log:
                    connection.cut(lost=True)

    def stored(self) -> Position | None:
        records = self.positions.records()
        found = decode_value(records[-1].value) if records else None
        assert not isinstance(found, ForeignPosition)
        return found

    # --- source ----------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        random, source = self.random, self.source
        if source.end > 80:
            return
        count = random.randint(1, 4)
        match random.randrange(8):
            case 0:
                source.data(count, holes=frozenset(random.sample(range(count), random.randint(1, count))))
            case 1:
                source.aborted_data(count, 7)
            case 2:
                source.data(count, producer_id=7)
                source.marker(7, COMMIT)
            case 3:
                source.vanish(random.randint(1, 3))
                source.data(count)
            case _:
                source.data(count)
        self.ever_wanted.update(source.wanted())

    def _compact(self) -> None:
        if self.source.end:
            self.source.compact(self.random.randrange(self.source.end))

    # --- what may happen -------------------------------------------------------------------------------------

    def step(self) -> None:
        owner = self.random.choice(self.owners)
        roll = self.random.random()
        if roll < 0.10:
            self._produce()
        elif roll < 0.75:
            self._traffic(owner)
        elif roll < 0.96:
            self._duty(owner)
        else:
            self._trouble(owner)

    def _traffic(self, owner: Owner) -> None:
        random = self.random
        may: list[Callable[[], object]] = [owner.send_data, owner.send_data, owner.send_position]
        if owner.fetched is not None:
            may.append(lambda: owner.take(random.choice((0, 0, 30))))
        elif owner.lane.wants_fetch:
            may.append(lambda: owner.fetch(random.randint(1, 4)))
        for connection in (owner.data, owner.places):
            if connection.queue:
                may += [connection.serve] * 2
            if connection.answers:
                may.append(connection.deliver)
        if self.ghosts:
            may.append(self._serve_ghost)
        random.choice(may)()

    def _duty(self, owner: Owner) -> None:
        random = self.random
        if owner.todo:
            owner.todo.pop(0)()
        elif owner.reads and random.random() < 0.5:
            owner.reads.pop(0)()
        elif owner.actions:
            owner.perform(owner.actions.pop(random.randrange(len(owner.actions))))
        else:
            owner.positions.flush_asked = random.random() < 0.3

    def _trouble(self, owner: Owner) -> None:
        random = self.random
        match random.randrange(12):
            case 0:
                owner.data.cut(lost=random.random() < 0.5)
                owner.lane.rewind()
            case 1:
                owner.places.cut(lost=random.random() < 0.5)
            case 2:
                self._restart(random.choice((self.target, self.positions)))
            case 3:
                self._compact()
            case 4 if self.kills < 5:
                self._replace(owner)
            case 5:
                self.target.max_bytes = random.choice((90, 100, _LARGE))
            case 6:
                bad = random.randrange(80)
                self.target.refuses = lambda key: key.isdigit() and int(key) == bad
            case 7:
                self._mend()
            case 8:
                self.has_foreign = True
                self.target.foreign(random.randint(1, 3))
            case 9 if owner.fenced and owner.epoch == self.epoch and not owner.todo:
                self.target.marker(PRODUCER_ID, owner.epoch)
                self.positions.marker(PRODUCER_ID, owner.epoch)
            case 10:
                owner.lane.paused = not owner.lane.paused
            case 11 if random.random() < 0.3:
                owner.lane.drain()
            case _:
                pass

    def _replace(self, owner: Owner) -> None:
        """A new owner; the old one is dead, or goes on without knowing."""
        self.kills += 1
        newest = max(one.assignment_epoch for one in self.owners) + 1
        if self.random.random() < 0.6:
            owner.leave()
            self.owners.remove(owner)
        self.owners = [one for one in self.owners if not one.gone]
        self.owners.append(Owner(self, newest))

    def keep_owned(self) -> None:
        """Whoever stood down is forgotten; a lane without an owner gets one."""
        self.owners = [one for one in self.owners if not one.gone] or [Owner(self, self.kills + 100)]

    def _mend(self) -> None:
        self.target.max_bytes = _LARGE
        self.target.refuses = lambda _key: False

    # --- the end ---------------------------------------------------------------------------------------------

    def settle_down(self) -> None:
        """No more trouble: the newest owner must reach the end of the source."""
        self.calm = True
        self._mend()
        newest = max(self.owners, key=lambda one: one.assignment_epoch)
        for owner in self.owners:
            if owner is not newest and not owner.gone:
                owner.leave()
        newest.lane.paused = newest.lane.draining = False
        for _ in range(3000):
            while self.ghosts:
                self._serve_ghost()
            if self._advance(newest):
                return
        raise AssertionError(f"stuck: {newest.lane.state}, {newest.lane.source_next} of {self.source.end}")

    def _advance(self, owner: Owner) -> bool:
        for pending in (owner.todo, owner.reads):
            if pending:
                pending.pop(0)()
        while owner.actions:
            owner.perform(owner.actions.pop(0))
        if owner.lane.wants_fetch:
            owner.fetch(3)
            owner.take(0)
        owner.positions.flush_asked = owner.lane.idle
        while owner.send_data() or owner.send_position():
            pass
        for connection in (owner.data, owner.places):
            while connection.queue:
                connection.serve()
            while connection.answers:
                connection.deliver()
        last = self.source.batches[-1].last if self.source.batches else -1
        return owner.lane.source_next > last and owner.lane.idle and owner.positions.settled and not owner.todo

    def check(self) -> None:
        """Nothing lost, nothing twice, nothing out of order; every buffer given back; the position tells the truth."""
        copied = [int(record.key or b"") for record in self.target.records()]
        assert all(before < after for before, after in pairwise(copied)), copied
        assert set(self.source.wanted()) <= set(copied), sorted(set(self.source.wanted()) - set(copied))
        assert set(copied) <= self.ever_wanted, sorted(set(copied) - self.ever_wanted)
        assert self.leased == 0
        stored = self.stored()
        assert stored is not None
        assert stored.source_next >= (self.source.batches[-1].last + 1 if self.source.batches else 0)


def run(seed: int, steps: int) -> None:
    """Play one interleaving to its end and check it."""
    world = World(seed)
    for _ in range(steps):
        world.step()
        world.keep_owned()
    world.settle_down()
    world.check()

"""A lane among everything that can go wrong, in random order: brokers, connections, owners, all in memory.

A seed determines all events, so a failing seed fails again. Buffers are overwritten when their last lease ends,
requests read their bytes as late as a kernel may, and a cut connection may leave requests that the broker still
processes later, even behind a new owner's barrier.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random

from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.states import State
from engine.core.offset_map.map_blocks import decode_block, read_block_key
from engine.core.offset_map.map_runs import MapBlock
from engine.core.offset_map.offset_map import How, OffsetMap
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.transaction import CommittedPositions
from engine.flow.ownership.stored_positions import Unreadable, resumable_positions
from engine.kafka.protocol.faults import append_kind
from policies.rebatch import RebatchRules, SmallBatches
from tests.fakes.source_log import BORN_MS, COMMIT, SourceLog
from tests.fakes.target_log import NONE, SPAN, TargetLog, decoded
from tests.unit.engine.core.coordinator import Coordinator
from tests.unit.engine.core.owners import LARGE, NAME, NOW_MS, PRODUCER_ID, Owner

AFTER_APPEND = 20, 3, 6, 56
"""What a broker may answer for a batch that is in its log, if something happens while it waits for the followers: too
few of them are left (Partition), it leads no more, drops the partition, loses its disk (DelayedProduce)."""

_QUEUED = RebatchRules(small=SmallBatches(1000, 1000), plain_records=0, compressed_batches=0)
_MERGING = (
    RebatchRules(small=SmallBatches(200, 200), plain_records=0, compressed_batches=0, crowd=3, full_bytes=300),
    RebatchRules(small=SmallBatches(110, 200), plain_records=4, compressed_batches=2, crowd=2, full_bytes=200),
    RebatchRules(small=SmallBatches(1000, 1000), plain_records=0, compressed_batches=0),
)
"""Ways to merge: of all small batches; of a few records at a time, and only of the smallest; of nearly everything."""
_QUEUEING = RebatchRules(small=SmallBatches(110, 110), plain_records=0, compressed_batches=0, queued=_QUEUED)
"""Merges nearly everything only now and then, when appends queue at the target."""
_WAYS = (*_MERGING, *_MERGING, _QUEUEING, _QUEUEING, None, None, None)


class World:
    """Source, target, positions, and whoever owns the lane.

    In every third world some records are so old that a restarted broker forgets their producer, and its fence: there,
    an owner that is replaced sends nothing more (its lease has run out), although what it sent may still arrive.

    In every seventh world owners are replaced within their first steps: nobody has written a position by then.

    In half of the worlds there is a backlog, and more appends may be in flight than a leader remembers.

    In two worlds of five the source has a replica whose cleaner is late, and any fetch may be answered by it (KIP-392,
    or a new leader): records that one answer did not have, the next may have. There owners die more often.

    In eight worlds of eleven small batches are merged, also parts of what one fetch brought; there a broker does not
    always say which record it refuses.

    In two worlds of nine the records that the target refuses are left out for good, once they are durable elsewhere.

    In every sixth world nearly all transactions have the same size: there the lane expects runs.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.aged = seed % 3 == 1
        self.source = SourceLog()
        self.replicas_differ = seed % 5 < 2
        self.hasty = 60 if seed % 7 == 3 else 0
        """Steps in which owners are replaced early."""
        self.most_kills = 12 if self.replicas_differ else 5
        self.steady = self.random.randint(1, 3) if seed % 6 == 5 else 0
        """Records of most transactions; 0: of any size."""
        self.target, self.positions, self.blocks = TargetLog(), TargetLog(), TargetLog()
        self.ghosts: list[tuple[TargetLog, deque[bytes]]] = []
        self.epoch = -1
        self.deep = seed % 16 >= 8
        self.window = 256 if self.deep else 5
        """The most appends in flight."""
        self.rebatch = _WAYS[seed % len(_WAYS)]
        self.leaves_out = seed % 9 in (2, 7)
        self.set_aside: set[int] = set()
        """Source offsets of the records that are durable elsewhere, because they were to be left out."""
        self.refused: set[int] = set()
        """Source offsets of all records that the target has refused."""
        self.clock = 0
        self.transactions = seed % 4
        """0 and 2: none; 1: every owner copies in transactions; 3: some do."""
        self.leaderless = seed % 4 == 1 or seed % 8 == 3
        """Whether the target sometimes has no leader when a transaction ends."""
        self.coordinator = Coordinator(self, PRODUCER_ID)
        self.leased = 0
        self.calm = False
        self.has_foreign = False
        self.ever_wanted: set[int] = set()
        self.kills = 0
        self.seen: dict[str, int] = {}
        self.owners: list[Owner] = []
        for _ in range(20 if self.deep else 0):
            self._produce()
        first = Owner(self, 1, watches=False)
        self.owners.append(first)
        # Without a barrier, near the wrap: what a broker without producer state accepts. Transactions need the barrier.
        if seed % 3 == 0 and not first.atomic:
            sequence, self.epoch = SPAN - 1 - self.random.randrange(12), 0
            first.own(0, 0, sequence, barrier_done=False)

    def count(self, what: str) -> None:
        """Note that something happened."""
        self.seen[what] = self.seen.get(what, 0) + 1

    @property
    def target_queues(self) -> bool:
        """Whether appends queue at the target just now; there is no such moment where that changes nothing."""
        has_other_rules = self.rebatch is not None and self.rebatch.queued is not None
        return has_other_rules and self.random.random() < 0.5

    def switches(self) -> bool:
        """Whether the next owner copies in transactions."""
        return self.transactions == 1 or (self.transactions == 3 and self.random.random() < 0.5)

    # --- brokers ---------------------------------------------------------------------------------------------

    def answer(self, log: TargetLog, payload: bytes) -> Outcome:
        chance = 1.0 if self.calm else self.random.random()
        if chance < 0.03:
            return self.refuse()
        if chance < 0.05:
            return Outcome(append_kind(7), error_code=7)
        code, base, index = log.append(payload)
        if log is self.target and append_kind(code) in (OutcomeKind.REFUSED, OutcomeKind.TOO_LARGE):
            self.refused.update(int(record.key or b"") for record in decoded(payload))
        named = log.refused_indexes(payload) if index >= 0 else ()
        if self.rebatch is not None and chance < 0.5:
            index, named = -1, ()
        if code == NONE and chance < 0.10:
            after = AFTER_APPEND[int(chance * 1000) % len(AFTER_APPEND)]
            self.count("refused behind the append")
            if after != 20:
                self._depose(log)
            return Outcome(append_kind(after), error_code=after)
        return Outcome(append_kind(code), base, code, record_index=index, record_indexes=named)

    @staticmethod
    def refuse() -> Outcome:
        """Answer as a broker that does not lead."""
        return Outcome(append_kind(6), error_code=6)

    def _depose(self, log: TargetLog) -> None:
        """Let another broker lead that has all of the log; it may have looked for expired producers by then.

        Whoever still has requests at the old leader is refused, whether these were appended in time or not.
        """
        self.ghosts = [ghost for ghost in self.ghosts if ghost[0] is not log]
        for owner in self.owners:
            for connection in owner.connections:
                if connection.log is log:
                    connection.depose(self.random.randint(0, len(connection.queue)))
        if self.aged and self.random.random() < 0.5:
            log.restart(NOW_MS)

    def leave_ghost(self, log: TargetLog, payloads: list[bytes]) -> None:
        if payloads:
            self.ghosts.append((log, deque(payloads)))

    def _serve_ghost(self) -> None:
        ghost = self.random.choice(self.ghosts)
        self.answer(ghost[0], ghost[1].popleft())
        self.ghosts = [one for one in self.ghosts if one[1]]

    def _restart(self, log: TargetLog) -> None:
        log.restart(NOW_MS if self.aged else 0)
        self.ghosts = [ghost for ghost in self.ghosts if ghost[0] is not log]
        for owner in self.owners:
            for connection in owner.connections:
                if connection.log is log:
                    connection.cut(lost=True)

    def stored(self) -> Position | None:
        """Return the position of a topic that is compacted: the last record of each key."""
        last: dict[bytes | None, bytes | None] = {}
        for record in self.positions.records():
            last.pop(record.key, None)  # the newest record of a key is where it was written last
            last[record.key] = record.value
        found = resumable_positions(last.items(), PositionKeys("A")).get(NAME.source)
        assert not isinstance(found, ForeignPosition | Unreadable), found
        self.count("with expected runs" if found is not None and found.ahead is not None else "without expected runs")
        return found

    def map_blocks(self) -> dict[int, MapBlock]:
        found: dict[int, MapBlock] = {}
        for record in self.blocks.records():
            key = read_block_key(record.key)
            assert key is not None
            assert record.value is not None
            found[key[2]] = decode_block(key[2], record.value)
        return found

    # --- source ----------------------------------------------------------------------------------------------

    def fetch(self, offset: int, batches: int) -> tuple[bytes, list[tuple[int, int]]]:
        late = self.replicas_differ and self.random.random() < 0.5
        return self.source.fetch(offset, batches, late=late)

    def _produce(self) -> None:
        random, source = self.random, self.source
        if source.end > (160 if self.deep else 150 if self.steady else 80):
            return
        count = random.randint(1, 4)
        if self.steady and random.random() < 0.93:
            source.born_ms = BORN_MS
            for _ in range(self.steady):
                source.data(1, producer_id=7)
            source.marker(7, COMMIT)
            self.ever_wanted.update(source.wanted(late=True))
            return
        source.born_ms = random.choice((BORN_MS, NOW_MS)) if self.aged else BORN_MS
        match random.randrange(2, 8) if self.replicas_differ else random.randrange(8):
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
        if self.replicas_differ and random.random() < 0.7:
            self._compact()
        self.ever_wanted.update(source.wanted(late=True))

    def _compact(self) -> None:
        """Compact what is newest most of the time: there the lane still reads."""
        source, roll = self.source, self.random.random()
        if not source.end:
            return
        offset = self.random.randrange(max(0, source.end - 12) if self.random.random() < 0.7 else 0, source.end)
        if not self.replicas_differ or roll < 0.4:
            source.compact(offset)
        elif roll < 0.98:
            source.clean(offset)
        else:
            source.catch_up()

    # --- what may happen -------------------------------------------------------------------------------------

    def step(self) -> None:
        self.clock += self.random.random() < 0.05
        owner = self.random.choice(self.owners)
        self.hasty = max(0, self.hasty - 1)
        if self.hasty and self.kills < 4 and self.random.random() < 0.1:
            self._replace(owner)
        if self.leaves_out and self.random.random() < 0.03:
            self._refuse_more(owner)
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
        may: list[Callable[[], object]] = [owner.send_data, owner.send_data, owner.send_position, owner.send_block]
        if owner.fetched is not None:
            may.append(lambda: owner.take(random.choice((0, 0, 30))))
        elif owner.lane.wants_fetch:
            may.append(lambda: owner.fetch(random.randint(1, 12 if self.deep else 4)))
        if self.deep:
            may += [owner.send_data] * 8
        for connection in owner.connections:
            if connection.queue:
                may += [connection.serve] * 2
            if connection.answers:
                may.append(connection.deliver)
        if self.ghosts:
            may.append(self._serve_ghost)
        if owner.atomic:
            may += [owner.carry] * 2
        if self.coordinator.markers:
            may.append(self.coordinator.write_marker)
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
        match random.randrange(26 if self.replicas_differ else 17):
            case 0:
                owner.data.cut(lost=random.random() < 0.5)
                owner.lane.rewind()
            case 1:
                random.choice((owner.places, owner.maps)).cut(lost=random.random() < 0.5)
            case 2:
                self._restart(random.choice((self.target, self.positions, self.blocks)))
            case 3:
                self._compact()
            case 4 if self.kills < self.most_kills:
                self._replace(owner)
            case 5:
                self.target.max_bytes = random.choice((90, 100, LARGE))
            case 6:
                bad = random.randrange(80)
                self.target.refuses = lambda key: key.isdigit() and int(key) == bad
            case 7:
                self._mend()
            case 8:
                self.has_foreign = True
                self.target.foreign(random.randint(1, 3))
            case 9 if isinstance(owner.positions, CommittedPositions):
                owner.positions.refresh()
            case 13:
                self.coordinator.time_out()
            case 14:
                owner.lane.rewind()
                owner.free_buffers()
            case 15 | 16 if self.kills < self.most_kills:
                self._hand_over(owner)
            case dies if dies >= 17 and self.kills < self.most_kills and owner.lane.wants_fetch:
                self._rewind_and_die(owner)
            case 9 if (owner.fenced or owner.alone) and owner.epoch == self.epoch and not owner.todo:
                if not owner.alone:
                    self.target.marker(PRODUCER_ID, owner.epoch)
                self.positions.marker(PRODUCER_ID, owner.epoch)
                self.blocks.marker(PRODUCER_ID, owner.epoch)
            case 10:
                owner.lane.paused = not owner.lane.paused
            case 11 if random.random() < 0.3:
                owner.lane.drain()
            case 12 if self.kills < self.most_kills:
                self._finish(owner)
                self._replace(owner)
            case _:
                pass

    def _finish(self, owner: Owner) -> None:
        """Let an owner come to the source's end and write it down, if it can: the next one may watch from there."""
        self.calm = True
        for _ in range(20):
            self.clock += 1
            if owner.gone or self._advance(owner):
                break
        self.calm = False

    def _hand_over(self, owner: Owner) -> None:
        """Let an owner leave, if it gets so far: mostly in peace, and sometimes it goes on without knowing."""
        owner.lane.paused = False
        owner.lane.drain()
        self.calm = self.random.random() < 0.7
        for _ in range(self.random.randint(0, 60)):
            self.clock += 1
            if owner.gone:
                break
            (self._traffic if self.random.random() < 0.8 else self._duty)(owner)
        self.calm = False
        self._replace(owner)

    def _rewind_and_die(self, owner: Owner) -> None:
        """Let an owner read again what it had not sent, append some of it, and die before its next position."""
        owner.lane.rewind()
        owner.fetch(3)
        owner.take(0)
        while owner.send_data():
            pass
        while owner.data.queue:
            owner.data.serve()
        self._replace(owner)

    def _replace(self, owner: Owner) -> None:
        """A new owner; the old one is dead, or goes on without knowing."""
        self.kills += 1
        newest = max(one.assignment_epoch for one in self.owners) + 1
        if self.aged or self.random.random() < 0.6:
            for one in self.owners if self.aged else [owner]:
                one.leave()
        self.owners = [one for one in self.owners if not one.gone]
        self.owners.append(Owner(self, newest, watches=self.random.random() < 0.5))

    def keep_owned(self) -> None:
        """Whoever stood down is forgotten; a lane without an owner gets one."""
        self.owners = [one for one in self.owners if not one.gone] or [Owner(self, self.kills + 100, watches=False)]

    def _refuse_more(self, owner: Owner) -> None:
        """Let the target refuse all records or every few, for their contents or their size; or mend it.

        What a lost connection leaves behind may then be refused when it is sent again, and arrive when it is not.
        """
        if self.random.random() < (0.6 if self.ghosts else 0.2):
            return self._mend()
        if self.random.random() < 0.3:
            owner.data.cut(lost=False)
            owner.lane.rewind()
        if self.random.random() < 0.2:
            self.target.max_bytes = self.random.choice((72, 74, LARGE))
            return None
        every = self.random.choice((1, 2, 3, 7, 15))
        bad = self.random.randrange(every)
        self.target.refuses = lambda key: key.isdigit() and int(key) % every == bad
        return None

    def _mend(self) -> None:
        self.target.max_bytes = LARGE
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
        if newest.lane.trail.left:
            newest.leave()
            newest = Owner(self, newest.assignment_epoch + 1, watches=False)
        newest.lane.paused = newest.lane.draining = False
        for _ in range(3000):
            while self.ghosts:
                self._serve_ghost()
            self.clock += 1
            if self._advance(newest):
                self.coordinator.write_markers()
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
        self.coordinator.write_markers()
        while owner.carry() or owner.send_data() or owner.send_position() or owner.send_block():
            pass
        for connection in owner.connections:
            while connection.queue:
                connection.serve()
            while connection.answers:
                connection.deliver()
        if owner.lane.state is State.WATCHING and owner.lane.fetch_offset == self.source.end:
            return True
        last = self.source.batches[-1].last if self.source.batches else -1
        return owner.lane.source_next > last and owner.lane.idle and owner.positions.settled and not owner.todo

    def check(self) -> None:
        """Nothing lost, nothing twice, nothing out of order; every buffer given back; the position tells the truth."""
        copied = [int(record.key or b"") for record in self.target.records()]
        assert all(before < after for before, after in pairwise(copied)), copied
        lost = set(self.source.wanted()) - set(copied) - self.set_aside
        assert not lost, sorted(lost)
        assert self.set_aside <= self.refused, sorted(self.set_aside - self.refused)
        assert self.leaves_out or not self.set_aside
        assert set(copied) <= self.ever_wanted, sorted(set(copied) - self.ever_wanted)
        assert self.leased == 0
        stored = self.stored()
        assert stored is not None
        assert stored.source_next >= (self.source.batches[-1].last + 1 if self.source.batches else 0)
        self._check_map(stored)

    def _check_map(self, stored: Position) -> None:
        """The map, read from blocks and position, says of every record in the target which one it is."""
        known = OffsetMap()
        for block in self.map_blocks().values():
            known.add_block(block, 0)
        known.follow(stored.map_head, stored.map_start)
        self.seen["mapped blocks"] = self.seen.get("mapped blocks", 0) + stored.map_blocks
        assert stored.map_start.first
        places = self.target.places()
        for offset in range(stored.source_next + 1):
            answer = known.translate(offset)
            behind = [target for source, target in places.items() if source >= offset]
            assert answer.offset == min(behind, default=stored.target_next), (offset, answer)
            assert (answer.how is How.RUN) == (offset in places)


def run(seed: int, steps: int) -> None:
    """Play one interleaving to its end and check it."""
    world = World(seed)
    for _ in range(steps):
        world.step()
        world.keep_owned()
    world.settle_down()
    world.check()

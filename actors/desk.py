"""Bookkeeping of one flow: its sets, who owns them, what each copier was told, what it has reported. No await.

discovery ──> sets ──place──> owner of a set ──(supervisor tells)──> seat.delivered
               ^                  │
               └── a seat's end ──┘   the set is free again, and is placed with a higher epoch
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping

import msgspec

from actors.ports import CopierPort, Found
from actors.states import Command, CopierState, Desired, Sign, copier_after, desired_after
from actors.status import CopierStatus, FlowStatus
from engine.core.progress import FlowProgress, LaneProgress
from engine.errors import MirrorError
from policies.model import FlowName, LaneName, PartitionSet

RATE_WINDOW = 6  # snapshots, one a second: long enough to be calm, short enough to follow a change

# flow, its lanes, the sets so far, how many copiers are to be busy -> the sets from now on
Plan = Callable[[FlowName, tuple[LaneName, ...], Mapping[str, PartitionSet], int], tuple[PartitionSet, ...]]


class UnknownTopic(MirrorError):
    """A command named a topic that the flow does not copy."""

    def __init__(self, topic: str, flow: str) -> None:
        super().__init__(topic, flow)
        self.topic, self.flow = topic, flow

    def __str__(self) -> str:
        return f"flow {self.flow} copies no topic {self.topic!r}; see: raymirror status"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of one flow. `wake` grows with every resume, so that a resume of a running flow is one too."""

    state: Desired = Desired.RUNNING
    paused_topics: frozenset[str] = frozenset()
    wake: int = 0


class Seat:
    """One copier, seen from the supervisor."""

    def __init__(self, port: CopierPort, at: float) -> None:
        self.port = port
        self.state = CopierState.STARTING
        self.started_at = at
        self.drain_asked_at: float | None = None
        self.delivered: dict[str, PartitionSet] = {}
        self.told = Wanted()
        self.progress: FlowProgress | None = None
        self.trouble = ""

    def sign(self, sign: Sign) -> None:
        """Move along the table."""
        self.state = copier_after(self.state, sign)


class FlowDesk:
    """One flow's bookkeeping; the supervisor reads it, talks to copiers, and writes down what came of it."""

    def __init__(self, flow: FlowName, *, copiers: int, plan: Plan) -> None:
        self.flow = flow
        self.copiers_wanted = copiers
        self.wanted = Wanted()
        self.seats: dict[str, Seat] = {}
        self.sets: dict[str, PartitionSet] = {}
        self.owner: dict[str, str] = {}
        self.failure = ""
        self.start_not_before = 0.0
        self.quick_deaths = 0
        self._plan = plan
        self._serial = 0
        self._next_epoch = 1
        self._started = 0
        self._gone_records = 0
        self._gone_bytes = 0
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=RATE_WINDOW)

    def command(self, command: Command, topics: tuple[str, ...] = ()) -> None:
        """Change what is wanted. Raises IllegalCommand, UnknownTopic."""
        state = desired_after(self.wanted.state, command)
        for topic in topics:
            if topic not in self.topics():
                raise UnknownTopic(topic, str(self.flow))
        wake = self.wanted.wake + (command is Command.RESUME)
        if not topics:
            self.wanted = Wanted(state=state, wake=wake)
            return
        paused = self.wanted.paused_topics
        paused = paused | set(topics) if command is Command.PAUSE else paused - set(topics)
        self.wanted = Wanted(state=self.wanted.state, paused_topics=frozenset(paused), wake=wake)

    def take(self, found: Found) -> None:
        """Take what Metadata found: new lanes join sets; nothing here takes a lane away from its owner."""
        self.failure = found.failure
        if found.serial <= self._serial:
            return
        self._serial = found.serial
        self._next_epoch = max(self._next_epoch, found.highest_epoch + 1)
        for fresh in self._plan(self.flow, found.lanes, self.sets, self.copiers_wanted):
            known = self.sets.get(fresh.set_id)
            epoch = known.epoch if known else 0
            self.sets[fresh.set_id] = msgspec.structs.replace(fresh, epoch=epoch)

    def next_copier_id(self) -> str:
        """Name a copier that never was: a name is used once."""
        self._started += 1
        return f"copier-{self.flow.source}.{self.flow.target}-{self._started}"

    def place(self) -> None:
        """Give every free set to the copier that carries the fewest lanes, at an epoch never used before."""
        open_seats = [
            key for key, seat in self.seats.items() if seat.state in (CopierState.STARTING, CopierState.READY)
        ]
        if not open_seats:
            return
        load = Counter(dict.fromkeys(open_seats, 0))
        for set_id, owner in self.owner.items():
            load[owner] += len(self.sets[set_id].lanes)
        for set_id in sorted(self.sets.keys() - self.owner.keys()):
            owner = min(open_seats, key=lambda key: (load[key], key))
            self.owner[set_id] = owner
            self.sets[set_id] = msgspec.structs.replace(self.sets[set_id], epoch=self._next_epoch)
            self._next_epoch += 1
            load[owner] += len(self.sets[set_id].lanes)

    def undelivered(self, copier_id: str) -> list[PartitionSet]:
        """List the sets a copier owns and has not confirmed in their present shape."""
        delivered = self.seats[copier_id].delivered
        mine = (self.sets[set_id] for set_id, owner in self.owner.items() if owner == copier_id)
        return [partition_set for partition_set in mine if delivered.get(partition_set.set_id) != partition_set]

    def vacate(self, copier_id: str) -> None:
        """A copier ended: keep what it had counted, set its sets free."""
        seat = self.seats.pop(copier_id)
        for lane in seat.progress.lanes if seat.progress else ():
            self._gone_records += lane.records
            self._gone_bytes += lane.wire_bytes
        self.owner = {set_id: owner for set_id, owner in self.owner.items() if owner != copier_id}

    def mark(self, at: float) -> None:
        """Note the counters at an instant (monotonic seconds), for the rates."""
        records = self._gone_records + sum(lane.records for lane in self.lanes())
        wire_bytes = self._gone_bytes + sum(lane.wire_bytes for lane in self.lanes())
        self._marks.append((at, records, wire_bytes))

    def lanes(self) -> Iterator[LaneProgress]:
        """Give every lane that some copier has reported."""
        for seat in self.seats.values():
            if seat.progress is not None:
                yield from seat.progress.lanes

    def topics(self) -> frozenset[str]:
        """Name the source topics of the flow."""
        return frozenset(lane.source.topic for group in self.sets.values() for lane in group.lanes)

    def status(self) -> FlowStatus:
        """Sum the flow up."""
        lanes = list(self.lanes())
        total = sum(len(group.lanes) for group in self.sets.values())
        known = sum(1 for lane in lanes if lane.source_end >= 0 and lane.source_next >= 0)
        states = Counter(lane.state for lane in lanes)
        records_per_s, bytes_per_s = self._rates()
        return FlowStatus(
            flow=str(self.flow),
            desired=self.wanted.state,
            paused_topics=tuple(sorted(self.wanted.paused_topics)),
            topics=len(self.topics()),
            lanes=total,
            unknown_lanes=max(0, total - known),
            lane_states=dict(states),
            lag_records=sum(lane.lag_records for lane in lanes),
            records=self._gone_records + sum(lane.records for lane in lanes),
            wire_bytes=self._gone_bytes + sum(lane.wire_bytes for lane in lanes),
            records_per_s=records_per_s,
            bytes_per_s=bytes_per_s,
            errors=states["failed"],
            waiting_for=self._waiting_for(),
        )

    def copier_statuses(self) -> Iterator[CopierStatus]:
        """Say how each copier of the flow is."""
        for copier_id, seat in self.seats.items():
            owned = tuple(sorted(set_id for set_id, owner in self.owner.items() if owner == copier_id))
            yield CopierStatus(
                copier_id=copier_id,
                flow=str(self.flow),
                state=seat.state,
                set_ids=owned,
                lanes=sum(len(self.sets[set_id].lanes) for set_id in owned),
                buffer_bytes=seat.progress.buffer_bytes if seat.progress else 0,
            )

    def _rates(self) -> tuple[float, float]:
        if len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return 0.0, 0.0
        (first_at, first_records, first_bytes), (last_at, last_records, last_bytes) = self._marks[0], self._marks[-1]
        span_s = last_at - first_at
        return max(0, last_records - first_records) / span_s, max(0, last_bytes - first_bytes) / span_s

    def _waiting_for(self) -> str:
        if self.failure:
            return self.failure
        if self._serial == 0:
            return "the first discovery of topics"
        troubles = [seat.trouble for seat in self.seats.values() if seat.trouble]
        if troubles:
            return troubles[0]
        states = {seat.state for seat in self.seats.values()}
        if CopierState.STARTING in states and CopierState.READY not in states:
            return "a copier to start (needs one free CPU in the Ray cluster)"
        return "" if self.sets else "topics that match the flow's patterns"

"""Counting one flow: what it has copied, how fast, and what `status` says of it. Counters never fall back."""

from collections import Counter, deque
from collections.abc import Iterator

from actors.desk import FlowDesk
from actors.seat import Seat
from actors.status import CopierStatus, FlowStatus, TopicStatus
from actors.totals import FlowTotals, Totals
from engine.core.progress import LaneProgress
from policies.model import LaneName

RATE_WINDOW = 6  # marks, one a second: long enough to be calm, short enough to follow a change


class Tally:
    """The counters of one flow. A lane that changes copiers is counted on by each; who is gone is kept."""

    def __init__(self, desk: FlowDesk) -> None:
        self._desk = desk
        self._gone_records = 0
        self._gone_bytes = 0
        self._totals = FlowTotals()
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=RATE_WINDOW)

    def bury(self, seat: Seat) -> None:
        """Keep what a copier that ended had counted."""
        self._gone_records += seat.records
        self._gone_bytes += seat.wire_bytes
        self._meet(seat)
        if seat.progress is not None:
            self._totals.bury(seat.copier_id, seat.progress)

    @property
    def records(self) -> int:
        """Records copied since the supervisor began."""
        return self._gone_records + sum(seat.records for seat in self._desk.seats.values())

    @property
    def wire_bytes(self) -> int:
        """Bytes appended since the supervisor began, as they were on the wire."""
        return self._gone_bytes + sum(seat.wire_bytes for seat in self._desk.seats.values())

    def mark(self, at_s: float) -> None:
        """Note the counters at an instant (monotonic seconds), for the rates."""
        for seat in self._desk.seats.values():
            self._meet(seat)
        if not self._marks or at_s - self._marks[-1][0] >= 0.5:
            self._marks.append((at_s, self.records, self.wire_bytes))

    def _meet(self, seat: Seat) -> None:
        if seat.is_adopted and seat.progress is not None:
            self._totals.adopt(seat.copier_id, seat.progress)

    def rates(self) -> tuple[float, float]:
        """Give records and bytes per second over the last few marks."""
        if len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return 0.0, 0.0
        (first_at, first_records, first_bytes), (last_at, last_records, last_bytes) = self._marks[0], self._marks[-1]
        span_s = last_at - first_at
        return max(0, last_records - first_records) / span_s, max(0, last_bytes - first_bytes) / span_s

    def status(self) -> FlowStatus:
        """Sum the flow up."""
        desk, lanes = self._desk, list(self._desk.lanes())
        total = sum(len(group.lanes) for group in desk.ledger.sets.values())
        known = sum(1 for lane in lanes if lane.lag_known)
        states = Counter(lane.state for lane in lanes)
        records_per_s, bytes_per_s = self.rates()
        counted = self.counted()
        return FlowStatus(
            flow=str(desk.flow),
            desired=desk.wanted.state,
            paused_topics=tuple(sorted(desk.wanted.paused_topics)),
            topics=len(desk.topics()),
            lanes=total,
            unknown_lanes=max(0, total - known),
            lane_states=dict(states),
            lag_records=sum(lane.lag_records for lane in lanes),
            records=self.records,
            wire_bytes=self.wire_bytes,
            records_per_s=records_per_s,
            bytes_per_s=bytes_per_s,
            errors=states["failed"],
            waiting_for=desk.waiting_for(),
            lag_bytes=sum(lane.lag_bytes for lane in lanes if lane.lag_bytes > 0),
            behind_since_ms=min((lane.behind_since_ms for lane in lanes if lane.behind_since_ms >= 0), default=-1),
            stalled=max(0, total - len(lanes)) + sum(1 for lane in lanes if lane.reason and lane.state != "paused"),
            append_failures=counted.append_failures,
            append_latency=counted.latencies.append,
            replication_latency=counted.latencies.replication,
            record_age=counted.latencies.record_age,
            groups=desk.groups,
        )

    def counted(self) -> Totals:
        """Sum up the counters since the supervisor began."""
        seats = self._desk.seats.values()
        return self._totals.now({seat.copier_id: seat.progress for seat in seats if seat.progress is not None})

    def topics(self) -> Iterator[TopicStatus]:
        """Say what was copied of each topic."""
        for one in self.counted().topics.values():
            yield TopicStatus(
                flow=str(self._desk.flow),
                topic=one.topic,
                records=one.records,
                wire_bytes=one.wire_bytes,
                latency_ms=one.latency_ms,
            )

    def lanes(self) -> Iterator[LaneProgress]:
        """Give every lane of the flow: as its copier reported it, or as one that nobody holds, and why."""
        desk, reported = self._desk, set()
        for lane in desk.lanes():
            reported.add(lane.lane)
            yield lane
        for set_id, group in desk.ledger.sets.items():
            owner = desk.ledger.owner.get(set_id)
            why = f"{owner} has not taken it yet" if owner else desk.waiting_for() or "waits for a copier"
            for name in group.lanes:
                if name.source not in reported:
                    yield unowned(name, set_id, group.epoch, why)

    def copiers(self) -> Iterator[CopierStatus]:
        """Say how each copier of the flow is."""
        ledger = self._desk.ledger
        for copier_id, seat in self._desk.seats.items():
            owned = ledger.owned(copier_id)
            yield CopierStatus(
                copier_id=copier_id,
                flow=str(self._desk.flow),
                state=seat.state,
                set_ids=tuple(owned),
                lanes=sum(len(ledger.sets[set_id].lanes) for set_id in owned),
                buffer_bytes=seat.progress.buffer_bytes if seat.progress else 0,
                node=seat.report.node if seat.report else "",
            )


def unowned(name: LaneName, set_id: str, epoch: int, reason: str) -> LaneProgress:
    """Describe a lane that no copier reports."""
    return LaneProgress(
        lane=name.source,
        target=name.target,
        state="unowned",
        reason=reason,
        source_next=-1,
        target_next=-1,
        source_end=-1,
        records=0,
        wire_bytes=0,
        in_flight=0,
        queued_bytes=0,
        resumed_by="",
        reencoded=0,
        skipped=0,
        set_id=set_id,
        epoch=epoch,
    )

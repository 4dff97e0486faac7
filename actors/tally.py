"""Counting one flow: what it has copied, how fast, and what `status` says of it. Counters never fall back."""

from collections import Counter, deque
from collections.abc import Iterator

from actors.desk import FlowDesk
from actors.seat import Seat
from actors.status import CopierStatus, FlowStatus

RATE_WINDOW = 6  # marks, one a second: long enough to be calm, short enough to follow a change


class Tally:
    """The counters of one flow. A lane that changes copiers is counted on by each; who is gone is kept."""

    def __init__(self, desk: FlowDesk) -> None:
        self._desk = desk
        self._gone_records = 0
        self._gone_bytes = 0
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=RATE_WINDOW)

    def bury(self, seat: Seat) -> None:
        """Keep what a copier that ended had counted."""
        self._gone_records += seat.records
        self._gone_bytes += seat.wire_bytes

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
        if not self._marks or at_s - self._marks[-1][0] >= 0.5:
            self._marks.append((at_s, self.records, self.wire_bytes))

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
        known = sum(1 for lane in lanes if lane.source_end >= 0 and lane.source_next >= 0)
        states = Counter(lane.state for lane in lanes)
        records_per_s, bytes_per_s = self.rates()
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
        )

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

"""Who copies a flow: starts copiers, sees who has ended or is lost, gives free sets to hands, evens the load.

Nobody gets a set of a copier that may still write: its process has ended, or its lease has (plus a margin for clocks
that run at other speeds); the broker refuses what is late even so, because the new owner's epoch is higher.
"""

from collections.abc import Callable

from actors.desk import FlowDesk
from actors.ports import Fleet
from actors.seat import Seat
from actors.states import CopierState, Sign
from policies.assignment import balance
from policies.model import FlowName

QUICK_DEATH_S = 60.0  # a copier that ends sooner than this after its start slows the next start down
BACKOFF_MAX_S = 30.0
LEASE_MARGIN_S = 0.5
HUNG_S = 10.0
"""A copier that reports, but whose data loop has not gone round for so long, is stuck."""
GATHER_S = 5.0
"""At a start, sets wait so long for all copiers to come, instead of moving a moment later."""
YIELD_S = 15.0
"""An outdated copier makes room when the one that is to replace it found no free CPU for so long."""
MOST_MOVES = 4
"""Sets of one flow that are on their way between copiers at a time."""

Note = Callable[[str, FlowName, str], None]


class Crew:
    """Decides about copiers, flow by flow."""

    def __init__(self, fleet: Fleet, clock_s: Callable[[], float], lease_s: float, note: Note) -> None:
        self._fleet, self._clock_s, self._lease_s, self._note = fleet, clock_s, lease_s, note

    # --- who lives -------------------------------------------------------------------------------------------

    def ended(self, desk: FlowDesk) -> list[Seat]:
        """List the copiers whose sets may be given to others now: their process has ended, or their lease."""
        return [seat for seat in desk.seats.values() if self._has_ended(desk, seat)]

    def _has_ended(self, desk: FlowDesk, seat: Seat) -> bool:
        vital, now_s = seat.port.vital(), self._clock_s()
        if vital.state == "closed":
            if seat.drain_asked_at_s is None:
                self._unexpected(desk, seat, vital.cause or "returned without being asked")
            return True
        if vital.state == "dead":
            self._unexpected(desk, seat, vital.cause)
            return True
        if self._is_hung(seat):
            self._unexpected(desk, seat, f"its data loop has stood still for {HUNG_S:.0f} s; killed")
            return True
        if vital.state == "lost" or now_s - seat.reported_at_s > self._lease_s:
            seat.port.hush()
            if now_s > self._safe_at_s(seat):
                self._unexpected(desk, seat, vital.cause or f"silent for {now_s - seat.reported_at_s:.1f} s")
                return True
        return False

    def _is_hung(self, seat: Seat) -> bool:
        """Whether it reports while its data loop stands still."""
        now_s = self._clock_s()
        reports = seat.report is not None and now_s - seat.reported_at_s < self._lease_s
        return reports and now_s - seat.beat_at_s > HUNG_S

    def _safe_at_s(self, seat: Seat) -> float:
        """Say from when on a silent copier holds no lease any more."""
        adopted_s = seat.started_at_s + self._lease_s if not seat.introduced else 0.0
        return max(seat.port.granted_until_s, adopted_s) + LEASE_MARGIN_S

    def _unexpected(self, desk: FlowDesk, seat: Seat, cause: str) -> None:
        if seat.drain_asked_at_s is not None:
            self._note("warning", desk.flow, f"{seat.copier_id} ended while it drained: {cause}")
            return
        lived_s = self._clock_s() - seat.started_at_s
        desk.quick_deaths = desk.quick_deaths + 1 if lived_s < QUICK_DEATH_S else 0
        # The first replacement comes at once: that is the case of a lost process. A copier that cannot live is slow.
        wait_s = min(BACKOFF_MAX_S, 2.0 ** (desk.quick_deaths - 1)) if desk.quick_deaths > 1 else 0.0
        desk.start_not_before_s = self._clock_s() + wait_s
        again = f"; the next one starts in {wait_s:.0f} s" if wait_s else "; its partitions move to others"
        self._note("error", desk.flow, f"{seat.copier_id} ended: {cause}{again}")

    # --- how many --------------------------------------------------------------------------------------------

    def staff(self, desk: FlowDesk) -> None:
        """Start the copiers that are missing; empty those that are too many or outdated, and end who is empty."""
        current = [seat for seat in desk.seats.values() if not seat.empties]
        fresh = [seat for seat in current if not self._is_outdated(desk, seat)]
        missing = desk.copiers_wanted - len(fresh)
        if self._clock_s() >= desk.start_not_before_s and not desk.taken:
            for _ in range(missing):
                port = self._fleet.start_copier(desk.flow, desk.recipe)
                desk.seats[port.copier_id] = Seat(port, self._clock_s())
        for seat in current:
            if self._is_outdated(desk, seat) and self._can_spare(fresh):
                seat.empties = True
                self._note("info", desk.flow, f"{seat.copier_id} hands its partitions over to a new one")
                break  # one at a time
        for seat in sorted(fresh, key=lambda seat: len(desk.ledger.owned(seat.copier_id)))[: max(0, -missing)]:
            seat.empties = True
        self._dismiss(desk)

    def _is_outdated(self, desk: FlowDesk, seat: Seat) -> bool:
        return seat.is_outdated or (seat.report is not None and seat.report.recipe != desk.recipe)

    def _can_spare(self, fresh: list[Seat]) -> bool:
        """Whether somebody is there to take over, or cannot come as long as nobody makes room."""
        return any(seat.state is CopierState.READY or self._clock_s() - seat.started_at_s > YIELD_S for seat in fresh)

    def _dismiss(self, desk: FlowDesk) -> None:
        for seat in desk.seats.values():
            if seat.empties and seat.drain_asked_at_s is None and not desk.ledger.owned(seat.copier_id):
                seat.drain_asked_at_s = self._clock_s()
                seat.sign(Sign.DRAIN_ASKED)

    # --- who does what ---------------------------------------------------------------------------------------

    def place(self, desk: FlowDesk) -> None:
        """Give free sets to hands, take sets from those who are to be emptied or carry too much, a few at a time."""
        seats, ledger = desk.open_seats(), desk.ledger
        if not seats or not desk.is_known or not desk.is_kept or self._gathers(desk):
            return
        if desk.weights.weigh(desk.lanes(), ledger.sets, self._clock_s()):
            desk.split_hot()
        leaving = frozenset(seat.copier_id for seat in desk.seats.values() if seat.empties)
        found = balance(
            {set_id: desk.weights.of(set_id, len(group.lanes)) for set_id, group in ledger.sets.items() if group.lanes},
            {**ledger.owner, **ledger.leaving},
            [*(seat.copier_id for seat in seats), *leaving],
            leaving=leaving,
            most_moves=max(0, MOST_MOVES - len(ledger.leaving)),
        )
        for set_id in ledger.free():
            if set_id in found.owners:
                ledger.give(set_id, found.owners[set_id])
        for move in found.moves:
            ledger.move(move.set_id, move.taker)

    def _gathers(self, desk: FlowDesk) -> bool:
        """Whether nobody copies yet, and copiers are on their way that would get their share a moment later."""
        if desk.ledger.owner:
            return False
        ready = len(desk.open_seats())
        on_their_way = [
            seat
            for seat in desk.seats.values()
            if seat.state is CopierState.STARTING and self._clock_s() - seat.started_at_s < GATHER_S
        ]
        return ready < desk.copiers_wanted and bool(on_their_way)

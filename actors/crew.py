"""Who copies a flow: starts copiers, sees who has ended, replaces who is outdated, dismisses who is too many.

Nobody gets a set of a copier that may still write: its process has ended, or its lease has; the broker refuses what is
late even so, because the new owner's epoch is higher.
"""

from collections.abc import Callable

from actors.desk import FlowDesk
from actors.events import CopierDrainedBadly, CopierEnded, CopierReplaced, SetQuarantined
from actors.ports import Fleet, Vital
from actors.seat import Seat
from actors.states import CopierState
from engine.core.events import Event
from policies.flapping import after_end, after_survival, divided, to_divide, wards
from policies.health import HealthLimits, Sighting, Verdict, judge, reason

QUICK_DEATH_S = 60.0  # a copier that ends sooner than this after its start slows the next start down
BACKOFF_MAX_S = 30.0
YIELD_S = 15.0
"""An outdated copier makes room when the one that is to replace it found no free CPU for so long."""

Note = Callable[[Event], None]


class Crew:
    """Decides about copiers, flow by flow."""

    def __init__(self, fleet: Fleet, clock_s: Callable[[], float], lease_s: float, note: Note) -> None:
        self._fleet, self._clock_s, self._lease_s, self._note = fleet, clock_s, lease_s, note
        self._limits = HealthLimits()

    # --- who lives -------------------------------------------------------------------------------------------

    def ended(self, desk: FlowDesk) -> list[Seat]:
        """List the copiers whose sets may be given to others now: their process has ended, or their lease."""
        if desk.records:
            desk.records = after_survival(desk.records, desk.held_since(), self._clock_s())
        return [seat for seat in desk.seats.values() if self._has_ended(desk, seat)]

    def _has_ended(self, desk: FlowDesk, seat: Seat) -> bool:
        vital = seat.port.vital()
        if vital.state == "closed" and seat.drain_asked_at_s is not None:
            return True
        sighting = self._sighting(seat, vital)
        verdict = judge(sighting, self._limits)
        if verdict in (Verdict.SLOW, Verdict.LOST) or (vital.state == "lost" and verdict is not Verdict.DEAD):
            seat.silent_because = vital.cause or reason(sighting, self._limits)
        else:
            seat.silent_because = ""
        if seat.has_spoken and (
            vital.state == "lost" or (verdict is Verdict.SLOW and self._clock_s() - seat.reported_at_s > self._lease_s)
        ):
            seat.port.hush()  # its lease is to run out; who waits for a node has none
        if verdict not in (Verdict.DEAD, Verdict.LOST, Verdict.HUNG):
            return False
        self._unexpected(desk, seat, vital.cause or reason(sighting, self._limits), blameless=vital.blameless)
        return True

    def _sighting(self, seat: Seat, vital: Vital) -> Sighting:
        # an earlier supervisor may have granted a lease just before this one began
        unheard = seat.report is None and seat.is_adopted
        return Sighting(
            now_s=self._clock_s(),
            started_s=seat.started_at_s,
            answered_s=seat.answered_at_s,
            last_report_s=seat.reported_at_s if seat.has_spoken else None,
            beat_changed_s=seat.beat_at_s,
            lease_until_s=max(seat.port.granted_until_s, seat.started_at_s + self._lease_s if unheard else 0.0),
            # a lease is granted in answer to a report: whoever never gave one may write nothing, wherever it is
            died=vital.state in ("dead", "closed") or (vital.state == "lost" and not seat.has_spoken),
        )

    def _unexpected(self, desk: FlowDesk, seat: Seat, cause: str, *, blameless: bool) -> None:
        if seat.drain_asked_at_s is not None:
            what = f"ended while it drained: {cause}"
            self._note(CopierDrainedBadly(flow=desk.flow, copier=seat.copier_id, what=what))
            return
        wait_s = self._back_off(desk, seat) if blameless or not seat.held_since else 0.0
        then = f"the next one starts in {wait_s:.0f} s" if wait_s else "its partitions move to others"
        self._note(CopierEnded(flow=desk.flow, copier=seat.copier_id, cause=cause, then=then))
        if not blameless:
            self._accuse(desk, seat, cause)  # one that held nothing speaks for the suspects

    def _back_off(self, desk: FlowDesk, seat: Seat) -> float:
        """Start ever slower what cannot live, whatever it copies; the first replacement comes at once."""
        now_s = self._clock_s()
        desk.quick_deaths = desk.quick_deaths + 1 if now_s - seat.started_at_s < QUICK_DEATH_S else 0
        wait_s = min(BACKOFF_MAX_S, 2.0 ** (desk.quick_deaths - 1)) if desk.quick_deaths > 1 else 0.0
        desk.start_not_before_s = now_s + wait_s
        return wait_s

    def _accuse(self, desk: FlowDesk, seat: Seat, cause: str) -> None:
        before, held, now_s = desk.quarantined(), desk.held_since(seat), self._clock_s()
        guilty = to_divide(desk.records, held, now_s)
        parts = desk.divide(guilty) if guilty is not None else ()
        if guilty is not None and parts:
            desk.records = divided(desk.records, guilty, parts)
            held = {
                **{set_id: at_s for set_id, at_s in held.items() if set_id != guilty},
                **dict.fromkeys(parts, held[guilty]),
            }
        others = (one.started_at_s for one in desk.seats.values() if one is not seat and one.state is CopierState.READY)
        desk.records = after_end(desk.records, held, now_s, cause, witness_s=now_s - min(others, default=now_s))
        for set_id, why in desk.quarantined().items():
            if set_id not in before:
                lanes = tuple(str(lane) for lane in desk.ledger.sets[set_id].lanes)
                self._note(SetQuarantined(flow=desk.flow, set_id=set_id, why=why, partitions=lanes))

    # --- how many --------------------------------------------------------------------------------------------

    def staff(self, desk: FlowDesk) -> None:
        """Start the copiers that are missing; empty those that are too many or outdated, and end who is empty."""
        current = [seat for seat in desk.seats.values() if not seat.empties]
        fresh = [seat for seat in current if not self._is_outdated(desk, seat)]
        missing = desk.copiers_wanted + len(wards(desk.records, self._clock_s())) - len(fresh)
        if self._clock_s() >= desk.start_not_before_s and not desk.taken:
            for _ in range(missing):
                port = self._fleet.start_copier(desk.flow, desk.recipe)
                desk.seats[port.copier_id] = Seat(port, self._clock_s())
        for seat in current:
            if self._is_outdated(desk, seat) and self._can_spare(fresh):
                seat.empties = True
                why = "a restart was asked for" if seat.is_outdated else "its code or its settings have changed"
                self._note(CopierReplaced(flow=desk.flow, copier=seat.copier_id, why=why))
                break  # one at a time
        for seat in sorted(fresh, key=lambda seat: len(desk.ledger.owned(seat.copier_id)))[: max(0, -missing)]:
            seat.empties = True
        self._dismiss(desk)

    def _is_outdated(self, desk: FlowDesk, seat: Seat) -> bool:
        return seat.is_outdated or (seat.report is not None and seat.report.recipe != desk.recipe)

    def _can_spare(self, fresh: list[Seat]) -> bool:
        """Whether somebody is there to take over, or cannot come as long as nobody makes room."""
        return any(seat.reaches_clusters or self._clock_s() - seat.started_at_s > YIELD_S for seat in fresh)

    def _dismiss(self, desk: FlowDesk) -> None:
        for seat in desk.seats.values():
            if seat.empties and seat.drain_asked_at_s is None and not desk.ledger.owned(seat.copier_id):
                seat.ask_drain(self._clock_s())

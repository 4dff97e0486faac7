"""Starts copiers, detects which have ended, replaces outdated ones, and dismisses surplus ones.

A set gets a new owner only when the process or the lease of its previous copier has ended, so that copier can write no
more. Even so, the broker refuses a late write, because the new owner's epoch is higher.
"""

from actors.control.copier_handle import CopierHandle
from actors.control.event_journal import EventJournal
from actors.control.flow_state import FlowState
from actors.control.ports import CopierVitals, Ports
from actors.model.events import CopierDrainedBadly, CopierEnded, CopierReplaced, SetQuarantined
from actors.model.states import CopierState
from policies.placement.flapping import after_end, after_survival, divided, to_divide, wards
from policies.placement.health import CopierHealth, HealthLimits, Sighting, judge, reason

LEASE_S = 6.0
"""Seconds that a copier may continue without orders from its supervisor."""
QUICK_DEATH_S = 60.0  # a copier that ends sooner than this after its start slows the next start down
BACKOFF_MAX_S = 30.0
YIELD_S = 15.0
"""Seconds after which an outdated copier makes room for its replacement, if that has found no free CPU."""


class CopierLifecycle:
    """Decides about the copiers of each flow."""

    def __init__(self, ports: Ports, events: EventJournal) -> None:
        self._fleet, self._clock, self._events = ports.fleet, ports.clock, events
        self._limits = HealthLimits()

    # --- who lives -------------------------------------------------------------------------------------------

    def ended(self, flow_state: FlowState) -> list[CopierHandle]:
        """Return the copiers whose sets may now go to others: their process or their lease has ended."""
        if flow_state.records:
            flow_state.records = after_survival(flow_state.records, flow_state.held_since(), self._clock.now_s())
        return [handle for handle in flow_state.handles.values() if self._has_ended(flow_state, handle)]

    def _has_ended(self, flow_state: FlowState, handle: CopierHandle) -> bool:
        vital = handle.port.vital()
        if vital.state == "closed" and handle.drain_asked_at_s is not None:
            return True
        sighting = self._sighting(handle, vital)
        verdict = judge(sighting, self._limits)
        if verdict in (CopierHealth.SLOW, CopierHealth.LOST) or (
            vital.state == "lost" and verdict is not CopierHealth.DEAD
        ):
            handle.silent_because = vital.cause or reason(sighting, self._limits)
        else:
            handle.silent_because = ""
        if handle.has_spoken and (
            vital.state == "lost"
            or (verdict is CopierHealth.SLOW and self._clock.now_s() - handle.reported_at_s > LEASE_S)
        ):
            handle.port.hush()  # let its lease run out; a copier that waits for a node has none
        if verdict not in (CopierHealth.DEAD, CopierHealth.LOST, CopierHealth.HUNG):
            return False
        self._unexpected(flow_state, handle, vital.cause or reason(sighting, self._limits), blameless=vital.blameless)
        return True

    def _sighting(self, handle: CopierHandle, vital: CopierVitals) -> Sighting:
        # an earlier supervisor may have granted a lease just before this one began
        unheard = handle.report is None and handle.is_adopted
        return Sighting(
            now_s=self._clock.now_s(),
            started_s=handle.started_at_s,
            answered_s=handle.answered_at_s,
            last_report_s=handle.reported_at_s if handle.has_spoken else None,
            beat_changed_s=handle.beat_at_s,
            lease_until_s=max(handle.port.granted_until_s, handle.started_at_s + LEASE_S if unheard else 0.0),
            # a lease answers a report: a copier that has never reported may write nothing, wherever it is
            died=vital.state in ("dead", "closed") or (vital.state == "lost" and not handle.has_spoken),
        )

    def _unexpected(self, flow_state: FlowState, handle: CopierHandle, cause: str, *, blameless: bool) -> None:
        if handle.drain_asked_at_s is not None:
            what = f"ended while it drained: {cause}"
            self._events.note(CopierDrainedBadly(flow=flow_state.flow, copier=handle.copier_id, what=what))
            return
        wait_s = self._back_off(flow_state, handle) if blameless or not handle.held_since else 0.0
        then = f"the next one starts in {wait_s:.0f} s" if wait_s else "its partitions move to others"
        self._events.note(CopierEnded(flow=flow_state.flow, copier=handle.copier_id, cause=cause, then=then))
        if not blameless:
            self._accuse(flow_state, handle, cause)  # also if it held nothing: that exonerates the suspects

    def _back_off(self, flow_state: FlowState, handle: CopierHandle) -> float:
        """Delay each next start while copiers end quickly, whatever they copy; one quick end causes no delay."""
        now_s = self._clock.now_s()
        flow_state.quick_deaths = flow_state.quick_deaths + 1 if now_s - handle.started_at_s < QUICK_DEATH_S else 0
        wait_s = min(BACKOFF_MAX_S, 2.0 ** (flow_state.quick_deaths - 1)) if flow_state.quick_deaths > 1 else 0.0
        flow_state.start_not_before_s = now_s + wait_s
        return wait_s

    def _accuse(self, flow_state: FlowState, handle: CopierHandle, cause: str) -> None:
        before, held, now_s = flow_state.quarantined(), flow_state.held_since(handle), self._clock.now_s()
        guilty = to_divide(flow_state.records, held, now_s)
        parts = flow_state.divide(guilty) if guilty is not None else ()
        if guilty is not None and parts:
            flow_state.records = divided(flow_state.records, guilty, parts)
            held = {
                **{set_id: at_s for set_id, at_s in held.items() if set_id != guilty},
                **dict.fromkeys(parts, held[guilty]),
            }
        others = (
            one.started_at_s
            for one in flow_state.handles.values()
            if one is not handle and one.state is CopierState.READY
        )
        flow_state.records = after_end(
            flow_state.records, held, now_s, cause, witness_s=now_s - min(others, default=now_s)
        )
        for set_id, why in flow_state.quarantined().items():
            if set_id not in before:
                lanes = tuple(str(lane) for lane in flow_state.ownership.sets[set_id].lanes)
                self._events.note(SetQuarantined(flow=flow_state.flow, set_id=set_id, why=why, partitions=lanes))

    # --- how many --------------------------------------------------------------------------------------------

    def staff(self, flow_state: FlowState) -> None:
        """Start missing copiers; empty surplus and outdated ones; end the empty ones."""
        flow_state.lacks = self._fleet.lacks(flow_state.flow)
        self._withdraw(flow_state)
        current = [handle for handle in flow_state.handles.values() if not handle.empties]
        fresh = [handle for handle in current if not self._is_outdated(flow_state, handle)]
        missing = flow_state.copiers_wanted + len(wards(flow_state.records, self._clock.now_s())) - len(fresh)
        if self._clock.now_s() >= flow_state.start_not_before_s and not flow_state.taken:
            for _ in range(missing):
                port = self._fleet.start_copier(flow_state.flow, flow_state.fingerprint)
                handle = CopierHandle(port, self._clock.now_s(), fingerprint=flow_state.fingerprint)
                flow_state.handles[port.copier_id] = handle
        for handle in current:
            if self._is_outdated(flow_state, handle) and self._can_spare(flow_state, fresh):
                handle.empties = True
                why = "a restart was requested" if handle.is_outdated else "its code or settings have changed"
                self._events.note(CopierReplaced(flow=flow_state.flow, copier=handle.copier_id, why=why))
                break  # one at a time
        for handle in sorted(fresh, key=lambda handle: len(flow_state.ownership.owned(handle.copier_id)))[
            : max(0, -missing)
        ]:
            handle.empties = True
        self._dismiss(flow_state)

    def _withdraw(self, flow_state: FlowState) -> None:
        """End copiers that wait for a node since before a reload: they may wait for a place that nobody wants any more.

        They hold nothing. A copier that has answered hands its sets over instead.
        """
        for handle in list(flow_state.handles.values()):
            if handle.is_new and handle.fingerprint != flow_state.fingerprint:
                del flow_state.handles[handle.copier_id]
                self._fleet.retire(handle.port)

    def _is_outdated(self, flow_state: FlowState, handle: CopierHandle) -> bool:
        return handle.is_outdated or (handle.report is not None and handle.report.fingerprint != flow_state.fingerprint)

    def _can_spare(self, flow_state: FlowState, fresh: list[CopierHandle]) -> bool:
        """Whether a new copier can take over, or cannot start as long as no copier makes room.

        No copier makes room for one that no node can run: the flow would stop, and nothing would start.
        """
        latest_s = self._clock.now_s() - YIELD_S
        return any(
            handle.reaches_clusters or (handle.started_at_s < latest_s and not flow_state.lacks) for handle in fresh
        )

    def _dismiss(self, flow_state: FlowState) -> None:
        for handle in flow_state.handles.values():
            if handle.empties and handle.drain_asked_at_s is None and not flow_state.ownership.owned(handle.copier_id):
                handle.ask_drain(self._clock.now_s())

"""Decides which copier has which set: assigns free sets, evens the load, isolates suspects. No await.

The rules are in `policies`. Nothing is placed before every copier that was found running has reported what it holds,
and before the wanted state is known. Only a few sets move at a time, so that a flow never waits for all of its sets at
once.
"""

from collections.abc import Set as AbstractSet

from actors.control.copier_handle import CopierHandle
from actors.control.flow_state import FlowState
from policies.placement.assignment import balance
from policies.placement.flapping import place_apart, waiting, wards

SETTLE_S = 15.0
"""Least seconds that a set stays with its new owner: it resumes there, and would otherwise pause twice."""
UNEVEN_S = 60.0
"""Seconds that uneven load must last to be worth a move: after every fault, loads differ while lanes catch up."""
GATHER_S = 5.0
"""Seconds that sets wait at a start for all copiers to appear, so that they need not move a moment later."""
MOST_MOVES = 4
"""Most sets of one flow that move between copiers at the same time."""


def place(flow_state: FlowState, now_s: float) -> None:
    """Decide which copier should have which set from now on."""
    handles = _candidates(flow_state)
    if not handles or not flow_state.is_known or not flow_state.is_state_read or _gathers(flow_state, now_s):
        return
    is_weighed = flow_state.weights.weigh(
        flow_state.reported(), flow_state.ownership.sets, flow_state.ownership.owner, now_s
    )
    if is_weighed and not any(record.ward and not record.reason for record in flow_state.records.values()):
        flow_state.split_hot()
    copiers = [handle.copier_id for handle in handles]
    apart = place_apart(
        wards(flow_state.records, now_s), {**flow_state.ownership.owner, **flow_state.ownership.leaving}, copiers
    )
    for set_id, worker in apart.owners.items():
        _isolate(flow_state, set_id, worker)
    suspects = {set_id for set_id, record in flow_state.records.items() if record.ward}
    waits = waiting(flow_state.records, now_s)
    settling = {set_id for set_id, since_s in flow_state.held_since().items() if now_s - since_s < SETTLE_S}
    _spread(flow_state, now_s, copiers, isolation_workers=apart.rooms, without=suspects | waits, settling=settling)


def _candidates(flow_state: FlowState) -> list[CopierHandle]:
    """List the copiers that may get sets: those that reach both clusters, or have some sets already.

    All open copiers at first, while all of them are connecting, and whenever no copier qualifies.
    """
    handles = flow_state.open_handles()
    if not flow_state.ownership.owner:
        return handles
    return [
        handle for handle in handles if handle.reaches_clusters or flow_state.ownership.owned(handle.copier_id)
    ] or handles


def _spread(
    flow_state: FlowState,
    now_s: float,
    copiers: list[str],
    *,
    isolation_workers: frozenset[str],
    without: AbstractSet[str],
    settling: AbstractSet[str],
) -> None:
    ownership = flow_state.ownership
    emptied = isolation_workers | {handle.copier_id for handle in flow_state.handles.values() if handle.empties}
    found = balance(
        {
            set_id: flow_state.weights.of(set_id, len(group.lanes))
            for set_id, group in ownership.sets.items()
            if group.lanes and set_id not in without
        },
        {**ownership.owner, **ownership.leaving},
        [*copiers, *sorted(emptied - set(copiers))],
        leaving=emptied,
        pinned=settling,
        most_moves=max(0, MOST_MOVES - len(ownership.leaving)),
    )
    if not found.moves:
        flow_state.uneven_since_s = None
    elif flow_state.uneven_since_s is None:
        flow_state.uneven_since_s = now_s
    for set_id in ownership.free():
        if set_id in found.owners:
            ownership.give(set_id, found.owners[set_id])
    for move in found.moves:
        is_worth_it = move.giver in emptied or _may_even_out(flow_state, copiers, now_s)
        if is_worth_it and flow_state.handles[move.taker].reaches_clusters:
            ownership.move(move.set_id, move.taker)


def _may_even_out(flow_state: FlowState, copiers: list[str], now_s: float) -> bool:
    """Whether uneven load is worth a pause: a copier has no set, or the load has been uneven for long enough."""
    if any(not flow_state.ownership.owned(copier_id) for copier_id in copiers):
        return True
    return flow_state.uneven_since_s is not None and now_s - flow_state.uneven_since_s >= UNEVEN_S


def _isolate(flow_state: FlowState, set_id: str, worker: str) -> None:
    """Give or move a suspect to its isolation worker."""
    ownership = flow_state.ownership
    if set_id not in ownership.sets or not ownership.sets[set_id].lanes:
        return
    if set_id not in ownership.owner:
        ownership.give(set_id, worker)
    elif ownership.leaving.get(set_id, ownership.owner[set_id]) != worker:
        ownership.move(set_id, worker)


def _gathers(flow_state: FlowState, now_s: float) -> bool:
    """Whether no copier has a set yet, and copiers are starting that would get their share a moment later."""
    if flow_state.ownership.owner:
        return False
    on_their_way = [
        handle
        for handle in flow_state.handles.values()
        if not handle.has_spoken and now_s - handle.started_at_s < GATHER_S
    ]
    return len(flow_state.open_handles()) < flow_state.copiers_wanted and bool(on_their_way)

"""Who copies what: gives free sets to hands, evens the load, keeps suspects apart. By `policies`; no await.

Nothing is placed before every copier that was found running has said what it holds, and before it is known what is
wanted. Only a few sets are on their way at a time, so that a flow never waits for all of its sets at once.
"""

from collections.abc import Set as AbstractSet

from actors.desk import FlowDesk
from actors.seat import Seat
from policies.assignment import balance
from policies.flapping import place_apart, waiting, wards

SETTLE_S = 15.0
"""A set stays so long with its new owner at least: it resumes, and would pause twice otherwise."""
UNEVEN_S = 60.0
"""Loads differ for a while after every fault, while lanes catch up; what lasts longer is worth a move."""
GATHER_S = 5.0
"""At a start, sets wait so long for all copiers to come, instead of moving a moment later."""
MOST_MOVES = 4
"""Sets of one flow that are on their way between copiers at a time."""


def place(desk: FlowDesk, now_s: float) -> None:
    """Say who is to have which set from now on."""
    seats = _hands(desk)
    if not seats or not desk.is_known or not desk.is_kept or _gathers(desk, now_s):
        return
    is_weighed = desk.weights.weigh(desk.reported(), desk.ledger.sets, desk.ledger.owner, now_s)
    if is_weighed and not any(record.ward and not record.reason for record in desk.records.values()):
        desk.split_hot()
    copiers = [seat.copier_id for seat in seats]
    apart = place_apart(wards(desk.records, now_s), {**desk.ledger.owner, **desk.ledger.leaving}, copiers)
    for set_id, room in apart.owners.items():
        _bring(desk, set_id, room)
    suspects = {set_id for set_id, record in desk.records.items() if record.ward}
    waits = waiting(desk.records, now_s)
    settling = {set_id for set_id, since_s in desk.held_since().items() if now_s - since_s < SETTLE_S}
    _spread(desk, now_s, copiers, apart.rooms, without=suspects | waits, settling=settling)


def _hands(desk: FlowDesk) -> list[Seat]:
    """List who may be given sets: copiers that reach both clusters, or have some already.

    Anybody at first, when all of them connect, and where nobody does.
    """
    seats = desk.open_seats()
    if not desk.ledger.owner:
        return seats
    return [seat for seat in seats if seat.reaches_clusters or desk.ledger.owned(seat.copier_id)] or seats


def _spread(
    desk: FlowDesk,
    now_s: float,
    copiers: list[str],
    rooms: frozenset[str],
    *,
    without: AbstractSet[str],
    settling: AbstractSet[str],
) -> None:
    ledger = desk.ledger
    leaving = rooms | {seat.copier_id for seat in desk.seats.values() if seat.empties}
    found = balance(
        {
            set_id: desk.weights.of(set_id, len(group.lanes))
            for set_id, group in ledger.sets.items()
            if group.lanes and set_id not in without
        },
        {**ledger.owner, **ledger.leaving},
        [*copiers, *sorted(leaving - set(copiers))],
        leaving=leaving,
        pinned=settling,
        most_moves=max(0, MOST_MOVES - len(ledger.leaving)),
    )
    if not found.moves:
        desk.uneven_since_s = None
    elif desk.uneven_since_s is None:
        desk.uneven_since_s = now_s
    for set_id in ledger.free():
        if set_id in found.owners:
            ledger.give(set_id, found.owners[set_id])
    for move in found.moves:
        is_worth_it = move.giver in leaving or _may_even_out(desk, copiers, now_s)
        if is_worth_it and desk.seats[move.taker].reaches_clusters:
            ledger.move(move.set_id, move.taker)


def _may_even_out(desk: FlowDesk, copiers: list[str], now_s: float) -> bool:
    """Whether unevenness is worth a pause: somebody has nothing to do, or it has lasted."""
    if any(not desk.ledger.owned(copier_id) for copier_id in copiers):
        return True
    return desk.uneven_since_s is not None and now_s - desk.uneven_since_s >= UNEVEN_S


def _bring(desk: FlowDesk, set_id: str, room: str) -> None:
    """Have a suspect where it is to be."""
    ledger = desk.ledger
    if set_id not in ledger.sets or not ledger.sets[set_id].lanes:
        return
    if set_id not in ledger.owner:
        ledger.give(set_id, room)
    elif ledger.leaving.get(set_id, ledger.owner[set_id]) != room:
        ledger.move(set_id, room)


def _gathers(desk: FlowDesk, now_s: float) -> bool:
    """Whether nobody copies yet, and copiers are on their way that would get their share a moment later."""
    if desk.ledger.owner:
        return False
    on_their_way = [
        seat for seat in desk.seats.values() if not seat.has_spoken and now_s - seat.started_at_s < GATHER_S
    ]
    return len(desk.open_seats()) < desk.copiers_wanted and bool(on_their_way)

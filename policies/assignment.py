"""Which lanes belong together, and who owns them: stable sets, sticky owners, least moves."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

import msgspec

from policies.model import FlowName, LaneName

LANES_PER_SET = 32
"""Lanes that move together: enough to keep sets few, few enough that a move is short."""


class SetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes of every set of one flow; a lane keeps its set for life."""

    sets: dict[str, tuple[LaneName, ...]] = {}

    def with_lanes(self, flow: FlowName, lanes: Iterable[LaneName], least_sets: int = 1) -> "SetPlan":
        """Return a plan in which every lane has a set: new ones join the smallest, more sets open when all are full.

        Lanes that are gone leave their set; `least_sets` is how many hands the flow should keep busy.
        """
        present = set(lanes)
        sets = {set_id: [lane for lane in held if lane in present] for set_id, held in self.sets.items()}
        placed = {lane for held in sets.values() for lane in held}
        for lane in sorted(present - placed):
            smallest = min(sets, key=lambda set_id: (len(sets[set_id]), set_id), default=None)
            if smallest is None or len(sets) < least_sets or len(sets[smallest]) >= LANES_PER_SET:
                smallest = _free_id(flow, sets)
                sets[smallest] = []
            sets[smallest].append(lane)
        return SetPlan(sets={set_id: tuple(held) for set_id, held in sets.items()})


def _free_id(flow: FlowName, taken: Mapping[str, object]) -> str:
    """Return the lowest free `A->B/017`: a plan read back in part may have holes."""
    return next(set_id for number in count() if (set_id := f"{flow}/{number:03d}") not in taken)


def assign(set_ids: Sequence[str], owners: Mapping[str, str], copiers: Sequence[str]) -> dict[str, str]:
    """Return set -> copier, no copier with two sets more than another, with as few moves as that takes.

    Sets of living owners stay, the others go to the copier with the fewest, then the fullest give to the emptiest.
    """
    if not copiers:
        return {}
    held: dict[str, list[str]] = {copier: [] for copier in copiers}
    orphans: list[str] = []
    for set_id in sorted(set_ids):
        held.get(owners.get(set_id, ""), orphans).append(set_id)
    for set_id in orphans:
        _emptiest(held).append(set_id)
    while len(fullest := max(held.values(), key=len)) > len(emptiest := _emptiest(held)) + 1:
        emptiest.append(fullest.pop())
    return {set_id: copier for copier, owned in held.items() for set_id in owned}


def _emptiest(held: Mapping[str, list[str]]) -> list[str]:
    return held[min(held, key=lambda copier: (len(held[copier]), copier))]

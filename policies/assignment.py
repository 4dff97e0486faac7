"""Which lanes belong together, and who owns them: stable sets, sticky owners, least moves."""

from collections.abc import Iterable, Mapping, Sequence

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
                smallest = f"{flow}/{len(sets):03d}"
                sets[smallest] = []
            sets[smallest].append(lane)
        return SetPlan(sets={set_id: tuple(held) for set_id, held in sets.items()})


def assign(set_ids: Sequence[str], owners: Mapping[str, str], copiers: Sequence[str]) -> dict[str, str]:
    """Return set -> copier: sets of living owners stay, the others go to the copier with the fewest sets."""
    if not copiers:
        return {}
    found = {set_id: owners[set_id] for set_id in set_ids if owners.get(set_id) in copiers}
    load = {copier: sum(1 for owner in found.values() if owner == copier) for copier in copiers}
    for set_id in sorted(set_ids):
        if set_id not in found:
            lightest = min(copiers, key=lambda copier: (load[copier], copier))
            found[set_id] = lightest
            load[lightest] += 1
    return found

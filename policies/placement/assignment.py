"""Groups lanes into sets, and assigns the sets to copiers: stable sets, sticky owners, few moves. Pure.

`SetPlan` decides which lanes form a set: a lane keeps its set, except that a hot lane may get its own set. `balance`
decides which copier owns a set. It never reassigns everything: it gives an owner to sets without one, then it moves a
few sets, and only while a move makes the loads of two copiers more equal. With constant weights it stops moving,
because each move makes the sum of the squared loads smaller. `steady_weights` keeps the weights constant while traffic
changes only a little. (A threshold on the present weights alone cannot: traffic may cross any threshold again and
again.)

Weights are in bytes per second.
"""

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count

import msgspec

from policies.model import FlowName, LaneName

LANES_PER_SET = 32
"""Lanes per set. Large enough to keep the number of sets small, small enough that a move is short."""
MOST_SOLO_SETS = 256
"""The most sets for single hot lanes. A lane keeps such a set, so without a bound each lane might get one over time."""
TOO_HEAVY = 1.2
"""The weight at which a set is split, as a multiple of one copier's share (the flow's weight / copiers)."""
HOT = 0.5
"""The weight at which a lane may get its own set, as a multiple of one copier's share."""
BUSY = 64 * 1024.0
"""The least weight of a hot lane in bytes per second: in an idle flow even a third of all traffic is no load."""
WORTH_SPLITTING = 0.1
"""The least weight of the other lanes of a set that is split, as a multiple of one copier's share."""
IDLE_LANE = 4096.0
"""The weight of a lane without traffic in bytes per second: it costs a fetch slot, memory and a barrier per move."""
LAG_HORIZON_S = 600.0
"""Lag counts as the rate that would drain it within this many seconds."""
TREMBLE = 1.25
"""A weight that differs by less than this factor counts as unchanged; this covers noise of 10 % on both sides."""
CLEAR_GAIN = 1.1
"""A set moves only if the gap is larger than its weight by this factor, so that rounding cannot move it back."""

_SOLO = "solo-"
_WARD = "ward-"
"""Sets that no new lane joins: a hot lane's own set, and a set of suspects, one of which may end every copier."""


class SetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes of every set of one flow: `A->B/017`, `A->B/solo-002` of a hot lane, `A->B/ward-001` of suspects."""

    sets: dict[str, tuple[LaneName, ...]] = {}

    def with_lanes(self, flow: FlowName, lanes: Iterable[LaneName], least_sets: int = 1) -> "SetPlan":
        """Return a plan in which every lane has a set: a new lane joins the smallest set, or a new set if all are full.

        Removed lanes leave their set; no lane joins a solo set or a ward. `least_sets`: the least number of sets, so
        that enough copiers can work.
        """
        listed = list(lanes)
        present = set(listed)
        sets = {set_id: [lane for lane in held if lane in present] for set_id, held in self.sets.items()}
        placed = {lane for held in sets.values() for lane in held}
        shared = [(len(held), set_id) for set_id, held in sets.items() if not is_closed(set_id)]
        heapq.heapify(shared)
        ids = _free_ids(flow, "", set(sets))
        for lane in sorted(dict.fromkeys(lane for lane in listed if lane not in placed)):  # mostly in order already
            if len(shared) < least_sets or shared[0][0] >= LANES_PER_SET:
                opened = next(ids)
                sets[opened] = []
                heapq.heappush(shared, (0, opened))
            size, set_id = shared[0]
            sets[set_id].append(lane)
            heapq.heapreplace(shared, (size + 1, set_id))
        return SetPlan(sets={set_id: tuple(held) for set_id, held in sets.items()})

    def split_hot(
        self, flow: FlowName, weights: Mapping[LaneName, float], copiers: int, total: float | None = None
    ) -> "SetPlan":
        """Return a plan in which the hottest lane of a set that is too heavy for one copier has its own set.

        Too heavy: clearly more than the flow's weight / copiers, so that no move can balance it. Hot: half of that.
        Each call splits off one lane at most, and only if the other lanes of its set have weight too; else it returns
        the same plan. Nothing else moves, and a solo set stays one. `weights`: `set_weight` of single lanes. A lane
        without an entry is idle, unless `total` (the weight of the whole flow) is given: then `weights` has only the
        lanes of sets that are `too_heavy`, and the other sets need no check.
        """
        solo = {set_id for set_id, held in self.sets.items() if held and _is_solo(set_id)}
        if copiers < 2 or len(solo) >= MOST_SOLO_SETS:
            return self
        if total is None:
            idle = sum(map(len, self.sets.values())) - len(weights)
            total = math.fsum(weights.values()) + IDLE_LANE * max(0, idle)
        share = total / copiers
        hot = {lane for lane, weight in weights.items() if weight > max(HOT * share, BUSY)}
        crowded = [
            (-weights[lane], lane, set_id)
            for set_id, held in (self.sets.items() if hot else ())
            for lane in held
            if lane in hot and _is_too_heavy(lane, held, weights, share)
        ]
        if not crowded:
            return self
        _, hottest, home = min(crowded)
        others = tuple(lane for lane in self.sets[home] if lane != hottest)
        return SetPlan(sets={**self.sets, home: others, next(_free_ids(flow, _SOLO, solo)): (hottest,)})

    def divide(self, flow: FlowName, set_id: str) -> "SetPlan":
        """Return a plan in which the lanes of a set are split into two wards; the same plan for a single lane.

        A ward stays a ward, so their number is bounded; the ids of empty wards are used again.
        """
        held = self.sets[set_id]
        taken = {known for known, lanes in self.sets.items() if lanes}
        if len(held) < 2 or sum(map(is_closed, taken)) >= 2 * MOST_SOLO_SETS:
            return self
        ids = _free_ids(flow, _WARD, taken)
        middle = (len(held) + 1) // 2
        return SetPlan(sets={**self.sets, set_id: (), next(ids): held[:middle], next(ids): held[middle:]})


def too_heavy(sets: Mapping[str, float], copiers: int) -> list[str]:
    """Return the sets that are so heavy that no move can balance them, without solo sets, which cannot be split.

    The threshold is a little low on purpose: `split_hot` checks again, lane by lane.
    """
    most = (1 - 1e-9) * TOO_HEAVY * math.fsum(sets.values()) / max(1, copiers)
    return [set_id for set_id, weight in sets.items() if weight > most and not _is_solo(set_id)]


def _is_too_heavy(lane: LaneName, held: Iterable[LaneName], weights: Mapping[LaneName, float], share: float) -> bool:
    others = math.fsum(weights.get(other, IDLE_LANE) for other in held if other != lane)
    return others > WORTH_SPLITTING * share and others + weights[lane] > TOO_HEAVY * share


def is_closed(set_id: str) -> bool:
    """Whether no new lane joins a set; a new plan would not create such a set either."""
    return set_id.rpartition("/")[2].startswith((_SOLO, _WARD))


def _is_solo(set_id: str) -> bool:
    return set_id.rpartition("/")[2].startswith(_SOLO)


def _free_ids(flow: FlowName, kind: str, taken: Container[str]) -> Iterator[str]:
    """Yield the free ids (`A->B/017`), lowest first: a plan that was only partly read back may have holes."""
    prefix = f"{flow}/{kind}"
    return (set_id for number in count() if (set_id := f"{prefix}{number:03d}") not in taken)


def set_weight(bytes_per_s: float, lag_bytes: float, lanes: int) -> float:
    """Return the load of a set: its rate, the rate that its lag needs, and a constant for each lane (bytes per second).

    Unknown lag (-1) counts as none. Pass rates that are means over about a minute, so that weights are steady.
    """
    return max(0.0, bytes_per_s) + max(0.0, lag_bytes) / LAG_HORIZON_S + IDLE_LANE * lanes


def steady_weights(before: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """Return the weights to use: the earlier weight for each set whose weight has changed only a little."""
    return {
        set_id: known if (known := before.get(set_id, 0.0)) / TREMBLE <= weight <= known * TREMBLE else weight
        for set_id, weight in measured.items()
    }


class Move(msgspec.Struct, frozen=True):
    """A set that moves from one living copier to another."""

    set_id: str
    giver: str
    taker: str


class Assignment(msgspec.Struct, frozen=True):
    """The owner that each set should have, and the moves between living copiers for it, in order."""

    owners: dict[str, str]
    moves: tuple[Move, ...] = ()


def balance(
    sets: Mapping[str, float],
    owners: Mapping[str, str],
    copiers: Sequence[str],
    *,
    leaving: frozenset[str] = frozenset(),
    pinned: Container[str] = (),
    tolerance: float = 0.2,
    most_moves: int = 4,
) -> Assignment:
    """Decide which copier should own each set, given the weights and the present owners.

    1. Sets without a living owner go to the copier with the least load, the heaviest set first.
    2. Copiers in `leaving` give their sets away, the heaviest first.
    3. While the loads of the fullest and the emptiest copier differ by more than `tolerance` x the mean load, the set
       that makes the two most equal moves. A copier without a suitable set is skipped.

    Step 3 does not move `pinned` sets, which have just moved. Steps 2 and 3 move at most `most_moves` sets, each once;
    with 0 only step 1 runs. If no copier can take a set, the set stays with its living owner or has none. Ties are
    decided by name.
    """
    loads = _Loads(sets, owners, copiers, leaving, pinned)
    if not loads.held.keys() - leaving:
        return Assignment(loads.owners())
    loads.place_free()
    moves = loads.empty_out(leaving, most_moves)
    while len(moves) < most_moves and (move := loads.best_move(tolerance)) is not None:
        loads.carry_out(move)
        moves.append(move)
    return Assignment(loads.owners(), tuple(moves))


class _Loads:
    """The sets and loads of all copiers, for the computation of one `balance`."""

    def __init__(
        self,
        sets: Mapping[str, float],
        owners: Mapping[str, str],
        copiers: Sequence[str],
        leaving: frozenset[str],
        pinned: Container[str],
    ) -> None:
        self.weights, self.pinned = sets, pinned
        self.held: dict[str, set[str]] = {copier: set() for copier in copiers}
        self.free: set[str] = set()
        self.moved: set[str] = set()
        for set_id in sets:
            owner = self.held.get(owners.get(set_id, ""))
            if owner is None:
                self.free.add(set_id)
            else:
                owner.add(set_id)
        self.load = {
            copier: math.fsum(sets[set_id] for set_id in held)
            for copier, held in self.held.items()
            if copier not in leaving
        }

    def owners(self) -> dict[str, str]:
        return {set_id: copier for copier, held in self.held.items() for set_id in held}

    def heaviest_first(self, set_ids: Iterable[str]) -> list[str]:
        return sorted(set_ids, key=lambda set_id: (-self.weights[set_id], set_id))

    def emptiest(self) -> str:
        return min(self.load, key=lambda copier: (self.load[copier], copier))

    def place_free(self) -> None:
        by_load = [(load, copier) for copier, load in self.load.items()]
        heapq.heapify(by_load)
        for set_id in self.heaviest_first(self.free):
            load, copier = by_load[0]
            heapq.heapreplace(by_load, (load + self.weights[set_id], copier))
            self.held[copier].add(set_id)
            self.load[copier] = load + self.weights[set_id]

    def empty_out(self, leaving: frozenset[str], most_moves: int) -> list[Move]:
        moves: list[Move] = []
        for giver in sorted(leaving & self.held.keys()):
            for set_id in self.heaviest_first(self.held[giver])[: max(0, most_moves - len(moves))]:
                moves.append(Move(set_id, giver, self.emptiest()))
                self.carry_out(moves[-1])
        return moves

    def best_move(self, tolerance: float) -> Move | None:
        taker = self.emptiest()
        enough = tolerance * math.fsum(self.load.values()) / len(self.load)
        for giver in sorted(self.load, key=lambda copier: (-self.load[copier], copier)):
            gap = self.load[giver] - self.load[taker]
            best = self.most_fitting(giver, gap) if gap > enough else None
            if best is not None:
                return Move(best, giver, taker)
        return None

    def most_fitting(self, giver: str, gap: float) -> str | None:
        """Return the set whose weight is nearest to half of the gap; a set as heavy as the gap would gain nothing.

        Sets that this call has just assigned or moved are left out, because the giver does not have them yet.
        """
        fresh = self.free | self.moved
        fitting = (
            set_id
            for set_id in self.held[giver]
            if 0.0 < self.weights[set_id] * CLEAR_GAIN < gap and set_id not in self.pinned and set_id not in fresh
        )
        return min(
            fitting,
            # of two equally good sets the lighter one: fewer lanes pause
            key=lambda set_id: (abs(self.weights[set_id] - gap / 2), self.weights[set_id], set_id),
            default=None,
        )

    def carry_out(self, move: Move) -> None:
        weight = self.weights[move.set_id]
        self.moved.add(move.set_id)
        self.held[move.giver].discard(move.set_id)
        self.held[move.taker].add(move.set_id)
        self.load[move.taker] += weight
        if move.giver in self.load:
            self.load[move.giver] -= weight

"""Which lanes belong together, and who owns them: stable sets, sticky owners, few moves. Pure.

Two questions, answered apart. `SetPlan` says which lanes form a set: a lane keeps its set, except that a hot one may
get a set of its own. `balance` says which copier owns a set. It never asks for a new world: sets without an owner find
one, then a few sets move, and only while that makes two copiers more alike. On the same weights it comes to rest,
because each move makes the sum of the squared loads smaller; `steady_weights` keeps the weights the same while traffic
only trembles. (No rule that sees the present weights alone can: a hair above any threshold is a hair below it.)

Weights are in bytes per second.
"""

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count

import msgspec

from policies.model import FlowName, LaneName

LANES_PER_SET = 32
"""Lanes that move together: enough to keep sets few, few enough that a move is short."""
MOST_SOLO_SETS = 256
"""Hot lanes with a set of their own: they keep it, so without a bound years of traffic would make a set per lane."""
TOO_HEAVY = 1.2
"""What a set must weigh to be split, as a part of one copier's share (the flow's weight / copiers)."""
HOT = 0.5
"""What a lane must weigh to get a set of its own, as a part of one copier's share."""
BUSY = 64 * 1024.0
"""What a hot lane must weigh in any case: in a flow that sleeps, one lane of three is no load."""
WORTH_SPLITTING = 0.1
"""What the others in its set must weigh: with less, the set without it would be worth nothing to anybody."""
IDLE_LANE = 4096.0
"""What a lane without traffic weighs: it costs a fetch slot, memory and a barrier at every move."""
LAG_HORIZON_S = 600.0
"""Lag counts as the rate that would drain it in so many seconds."""
TREMBLE = 1.25
"""A weight that is off by less than this factor has not changed: swallows noise of 10 % on both sides."""
CLEAR_GAIN = 1.1
"""A set moves only where the gap is larger than its weight by this factor, so that rounding cannot move it back."""

_SOLO = "solo-"
_WARD = "ward-"
"""Sets that no new lane joins: of a hot lane, and of lanes one of which may end every copier."""


class SetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes of every set of one flow: `A->B/017`, `A->B/solo-002` of a hot lane, `A->B/ward-001` of suspects."""

    sets: dict[str, tuple[LaneName, ...]] = {}

    def with_lanes(self, flow: FlowName, lanes: Iterable[LaneName], least_sets: int = 1) -> "SetPlan":
        """Return a plan in which every lane has a set: new ones join the smallest, more sets open when all are full.

        Lanes that are gone leave their set; none joins a solo set or a ward. `least_sets` is how many hands the flow
        should be able to keep busy.
        """
        listed = list(lanes)
        present = set(listed)
        sets = {set_id: [lane for lane in held if lane in present] for set_id, held in self.sets.items()}
        placed = {lane for held in sets.values() for lane in held}
        shared = [(len(held), set_id) for set_id, held in sets.items() if not is_closed(set_id)]
        heapq.heapify(shared)
        ids = _free_ids(flow, "", set(sets))
        for lane in sorted(dict.fromkeys(lane for lane in listed if lane not in placed)):  # listed in order mostly
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
        """Return a plan in which the hottest lane of a set too heavy for one copier has a set of its own.

        Too heavy: clearly more than the flow's weight / copiers, so that no move can even it out. Hot: half of that.
        One lane per call, and only where the others in its set have weight too; the same plan where there is none.
        Nothing else moves, and a solo set stays one. `weights`: `set_weight` of single lanes of the plan; a lane that
        is not among them is idle, unless `total` says what the whole flow weighs: then they are those of the sets
        that are `too_heavy`, and no others need looking at.
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
        """Return a plan in which the lanes of a set are in two wards, half and half; the same plan for a single lane.

        Wards stay what they are, so their number is bounded; the ids of those that are empty are used again.
        """
        held = self.sets[set_id]
        taken = {known for known, lanes in self.sets.items() if lanes}
        if len(held) < 2 or sum(map(is_closed, taken)) >= 2 * MOST_SOLO_SETS:
            return self
        ids = _free_ids(flow, _WARD, taken)
        middle = (len(held) + 1) // 2
        return SetPlan(sets={**self.sets, set_id: (), next(ids): held[:middle], next(ids): held[middle:]})


def too_heavy(sets: Mapping[str, float], copiers: int) -> list[str]:
    """Name the sets, given what each weighs, that no move can even out; a solo set cannot be split any further.

    By a hair too many rather than too few: `split_hot` looks again, lane by lane.
    """
    most = (1 - 1e-9) * TOO_HEAVY * math.fsum(sets.values()) / max(1, copiers)
    return [set_id for set_id, weight in sets.items() if weight > most and not _is_solo(set_id)]


def _is_too_heavy(lane: LaneName, held: Iterable[LaneName], weights: Mapping[LaneName, float], share: float) -> bool:
    others = math.fsum(weights.get(other, IDLE_LANE) for other in held if other != lane)
    return others > WORTH_SPLITTING * share and others + weights[lane] > TOO_HEAVY * share


def is_closed(set_id: str) -> bool:
    """Whether no new lane joins a set: nor would a new plan make it again."""
    return set_id.rpartition("/")[2].startswith((_SOLO, _WARD))


def _is_solo(set_id: str) -> bool:
    return set_id.rpartition("/")[2].startswith(_SOLO)


def _free_ids(flow: FlowName, kind: str, taken: Container[str]) -> Iterator[str]:
    """Give the free `A->B/017`, the lowest first: a plan read back in part may have holes."""
    prefix = f"{flow}/{kind}"
    return (set_id for number in count() if (set_id := f"{prefix}{number:03d}") not in taken)


def set_weight(bytes_per_s: float, lag_bytes: float, lanes: int) -> float:
    """Return what a set asks of its copier: its rate, the rate that its lag calls for, something for each lane.

    Unknown lag (-1) counts as none. Rates want to be means over a minute or so: a weight is no gauge.
    """
    return max(0.0, bytes_per_s) + max(0.0, lag_bytes) / LAG_HORIZON_S + IDLE_LANE * lanes


def steady_weights(before: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """Return the weights to go on with: the one from before for each set whose weight has not really changed."""
    return {
        set_id: known if (known := before.get(set_id, 0.0)) / TREMBLE <= weight <= known * TREMBLE else weight
        for set_id, weight in measured.items()
    }


class Move(msgspec.Struct, frozen=True):
    """A set that goes from one living copier to another."""

    set_id: str
    giver: str
    taker: str


class Assignment(msgspec.Struct, frozen=True):
    """The owner that each set should have, and the moves among living copiers that are part of it, in order."""

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
    """Say who should own each set, given its weight and its owner so far.

    1. Sets without a living owner go to the copier with the least weight, the heaviest first.
    2. Copiers in `leaving` give their sets away, the heaviest first.
    3. While the fullest copier carries more than the emptiest by over `tolerance` x the mean load, a set moves between
       the two that makes them most alike. A copier with nothing fitting to give is passed over.

    Step 3 leaves `pinned` sets alone: they have just come where they are. Steps 2 and 3 move `most_moves` sets at
    most, each once; 0 only finds owners. With nobody to go to, a set stays with its living owner or has none. Ties
    go by name.
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
    """Who holds what, and how much that is; a scratch pad of one `balance`."""

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
        """The set that comes nearest to half of the gap; one as heavy as the gap would only change sides.

        None of those that were free a moment ago: they have just found their owner, and are not with the giver yet.
        """
        fitting = (
            set_id
            for set_id in self.held[giver]
            if 0.0 < self.weights[set_id] * CLEAR_GAIN < gap and set_id not in self.pinned and set_id not in self.free
        )
        return min(
            fitting,
            # of two that even out alike, the lighter one: fewer lanes stand still
            key=lambda set_id: (abs(self.weights[set_id] - gap / 2), self.weights[set_id], set_id),
            default=None,
        )

    def carry_out(self, move: Move) -> None:
        weight = self.weights[move.set_id]
        self.held[move.giver].discard(move.set_id)
        self.held[move.taker].add(move.set_id)
        self.load[move.taker] += weight
        if move.giver in self.load:
            self.load[move.giver] -= weight

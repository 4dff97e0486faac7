"""A simulated flow whose guilty sets end every copier that holds them for a while, on whole seconds."""

from collections.abc import Mapping
from itertools import count

from policies.placement.assignment import balance
from policies.placement.flapping import SetRecord, after_end, after_survival, place_apart, waiting, wards


class Flow:
    """`copiers` are always there, up to `spare` more come for wards; `guilty`: set -> seconds until its copier ends."""

    def __init__(self, sets: int, copiers: int, spare: int, guilty: Mapping[str, int]) -> None:
        self.sets = [f"s{n:03d}" for n in range(sets)]
        self.copiers, self.spare, self.guilty = copiers, spare, dict(guilty)
        self.records: dict[str, SetRecord] = {}
        self.owners: dict[str, str] = {}
        self.since: dict[str, float] = {}
        self.lifecycle: list[str] = []
        self._born: dict[str, float] = {}
        self.ends: list[list[str]] = []
        """What each copier that ended had held."""
        self.idle = dict.fromkeys(self.sets, 0)
        """Seconds for which nobody held a set."""
        self._placed: tuple[object, object] | None = None
        self._names = (f"c{n:04d}" for n in count())
        self._now = count()

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            now_s = next(self._now)
            self._place(now_s)
            for set_id in self.sets:
                self.idle[set_id] += set_id not in self.owners
            for set_id, fuse_s in self.guilty.items():
                if set_id in self.owners and now_s - self.since[set_id] >= fuse_s:
                    self._end(self.owners[set_id], now_s)

    def kill(self, number: int, cause: str) -> None:
        """Somebody ends a copier, whatever it holds."""
        if self.lifecycle:
            self._end(self.lifecycle[number % len(self.lifecycle)], next(self._now), cause)

    def mend(self, set_id: str) -> None:
        """The cause is gone."""
        del self.guilty[set_id]

    def _place(self, now_s: float) -> None:
        if self.records:
            self.records = after_survival(self.records, {set_id: self.since[set_id] for set_id in self.owners}, now_s)
        groups, kept = wards(self.records, now_s), waiting(self.records, now_s)
        if self._placed == (groups, kept):
            return
        self._placed = groups, kept
        self._staff(self.copiers + min(len(groups), self.spare), now_s)
        apart = place_apart(groups, self.owners, self.lifecycle)
        weights = {set_id: 1.0 for set_id in self.sets if set_id not in kept.union(*groups)}
        rest = balance(weights, self.owners, self.lifecycle, leaving=apart.rooms, most_moves=len(self.sets))
        owners = {**rest.owners, **apart.owners}
        for set_id in self.sets:
            if owners.get(set_id) != self.owners.get(set_id):
                self.since[set_id] = now_s
        self.owners = owners

    def _staff(self, wanted: int, now_s: float) -> None:
        empty = [copier for copier in self.lifecycle if copier not in self.owners.values()]
        for copier in empty[: max(0, len(self.lifecycle) - wanted)]:
            self.lifecycle.remove(copier)
        while len(self.lifecycle) < wanted:
            self.lifecycle.append(next(self._names))
            self._born[self.lifecycle[-1]] = now_s

    def _end(self, copier: str, now_s: float, cause: str = "boom") -> None:
        held = {set_id: self.since[set_id] for set_id, owner in self.owners.items() if owner == copier}
        witness_s = now_s - min((self._born[one] for one in self.lifecycle if one != copier), default=now_s)
        self.records = after_end(self.records, held, now_s, cause, witness_s)
        self.ends.append(sorted(held))
        self.lifecycle.remove(copier)
        self.owners = {set_id: owner for set_id, owner in self.owners.items() if owner != copier}
        self._placed = None

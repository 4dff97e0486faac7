"""The ownership table: the sets of one flow, the owner of each, and the sets that move to another owner. No await.

    free --give--> owned --move--> leaving --let_go--> owned by another, at a higher epoch
      ^              |               |
      +---- vacate --+---------------+

A set has at most one owner. It gets a new owner only when the previous one has released it or can write no more. An
epoch is used once: new epochs start above the highest one found on the target or at a copier.
"""

from collections.abc import Collection, Container, Iterable, Mapping

import msgspec

from policies.model import LaneName, PartitionSet, TopicPartition


class OwnershipTable:
    """Sets and their owners."""

    def __init__(self) -> None:
        self.sets: dict[str, PartitionSet] = {}
        self.owner: dict[str, str] = {}
        self.leaving: dict[str, str] = {}
        """Set -> the copier that gets it next."""
        self._next_epoch = 1
        self._orders: dict[str, tuple[PartitionSet, ...]] = {}
        self._held: dict[str, list[str]] | None = None
        """Copier -> its sets in order, until an owner changes."""

    def lanes(self) -> dict[str, tuple[LaneName, ...]]:
        """Return the lanes of each set."""
        return {set_id: group.lanes for set_id, group in self.sets.items()}

    def see_epoch(self, epoch: int) -> None:
        """Note an epoch that was used: no epoch up to it will be used again."""
        self._next_epoch = max(self._next_epoch, epoch + 1)

    def reshape(self, plan: Mapping[str, tuple[LaneName, ...]], make: PartitionSet) -> None:
        """Give the sets the lanes of a plan; owners and epochs stay. `make` is a pattern for new sets.

        A new set with lanes of an owned set starts with the same owner: the copier first divides what it holds, and
        only then can a part of it move. The new set has a new epoch, so its lanes belong to it in whatever order the
        copier receives both sets.
        """
        homes: dict[LaneName, str] = {}
        if not plan.keys() <= self.sets.keys():
            homes = {
                lane: set_id for set_id, group in self.sets.items() if set_id in self.owner for lane in group.lanes
            }
        for set_id, lanes in plan.items():
            known = self.sets.get(set_id, make)
            if known.set_id == set_id and known.lanes == lanes:
                continue
            home = homes.get(lanes[0]) if known.set_id != set_id and lanes else None
            self.sets[set_id] = msgspec.structs.replace(known, set_id=set_id, lanes=lanes)
            if home is not None:
                self.give(set_id, self.owner[home])
            self._touch(self.owner.get(set_id))

    def adopt(self, copier_id: str, held: Iterable[PartitionSet]) -> None:
        """Make a copier the owner of the sets that it reports, except sets that another holds at a higher epoch."""
        for group in held:
            self.see_epoch(group.epoch)
            owner, known = self.owner.get(group.set_id), self.sets.get(group.set_id)
            if owner is not None and known is not None and known.epoch > group.epoch:
                continue
            self.sets[group.set_id] = group
            self._own(group.set_id, copier_id)
            self._touch(owner)
        self._touch(copier_id)

    def remember(self, group: PartitionSet) -> None:
        """Add a stored set, unless a copier was adopted with it: that copier's set is newer."""
        self.see_epoch(group.epoch)
        self.sets.setdefault(group.set_id, group)

    def separate(self) -> None:
        """Leave a lane that is in several adopted sets (its owner was unreachable when it moved) in the newest one."""
        held = [lane for group in self.sets.values() for lane in group.lanes]
        if len(set(held)) == len(held):
            return
        newest: dict[LaneName, PartitionSet] = {}
        for group in sorted(self.sets.values(), key=lambda group: group.epoch):
            newest.update(dict.fromkeys(group.lanes, group))
        for set_id, group in self.sets.items():
            kept = tuple(lane for lane in group.lanes if newest[lane] is group)
            if len(kept) < len(group.lanes):
                self.sets[set_id] = msgspec.structs.replace(group, lanes=kept)
                self._touch(self.owner.get(set_id))

    def free(self) -> list[str]:
        """Return the sets without an owner, in order."""
        return sorted(self.sets.keys() - self.owner.keys())

    def give(self, set_id: str, copier_id: str) -> None:
        """Make a copier the owner of a free set, at an epoch never used before."""
        self._own(set_id, copier_id)
        self.sets[set_id] = msgspec.structs.replace(self.sets[set_id], epoch=self._next_epoch)
        self._next_epoch += 1
        self._touch(copier_id)

    def move(self, set_id: str, to: str) -> None:
        """Request a move: the set is no longer in the orders of its present owner."""
        self.leaving[set_id] = to
        self._touch(self.owner[set_id])

    def let_go(self, copier_id: str, held: Collection[str], lanes: Container[TopicPartition] = ()) -> list[str]:
        """Give sets that were leaving a copier to their new owners; return their ids.

        `held` and `lanes` are what the copier still holds, by a report that follows its newest orders. A set leaves it
        only when neither the set nor any of its lanes is among them.
        """
        gone = [
            set_id
            for set_id in self.leaving
            if self.owner[set_id] == copier_id
            and set_id not in held
            and not any(lane.source in lanes for lane in self.sets[set_id].lanes)
        ]
        for set_id in gone:
            self.give(set_id, self.leaving.pop(set_id))
        return gone

    def vacate(self, copier_id: str) -> list[str]:
        """Free the sets of a copier that ended, return their ids; sets that were moving to it stay at their owners."""
        freed = self.owned(copier_id)
        self._held = None
        for set_id in freed:
            del self.owner[set_id]
            self.leaving.pop(set_id, None)
        for set_id, to in list(self.leaving.items()):
            if to == copier_id:
                del self.leaving[set_id]
                self._touch(self.owner[set_id])
        self._orders.pop(copier_id, None)
        return freed

    def owned(self, copier_id: str) -> list[str]:
        """Return the sets that a copier owns, including sets that are leaving it."""
        if self._held is None:
            self._held = {}
            for set_id in sorted(self.owner):
                self._held.setdefault(self.owner[set_id], []).append(set_id)
        return list(self._held.get(copier_id, ()))

    def orders_for(self, copier_id: str) -> tuple[PartitionSet, ...]:
        """Return the sets that a copier is to hold; the same object until something changes."""
        known = self._orders.get(copier_id)
        if known is None:
            known = tuple(self.sets[set_id] for set_id in self.owned(copier_id) if set_id not in self.leaving)
            self._orders[copier_id] = known
        return known

    def _own(self, set_id: str, copier_id: str) -> None:
        self.owner[set_id] = copier_id
        self._held = None

    def _touch(self, copier_id: str | None) -> None:
        if copier_id is not None:
            self._orders.pop(copier_id, None)

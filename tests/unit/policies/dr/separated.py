"""Two logs of one partition in memory after a failover, and a failback done to them as a plan says.

Every record has a number of its own, so that a test sees which one a log holds and a group has read. A key's value of
None is a tombstone.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from policies.dr.failback import FailbackChoice, FailbackPlan, plan_failback
from policies.dr.group_places import FailbackSide, GroupPlace, GroupProgress
from policies.dr.separation import LogBounds, LogPart, Separation, TopicTraits
from policies.model import LaneName, TopicPartition

LANE = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))


class Entry(NamedTuple):
    """One record: its number, key, and value (None: a tombstone)."""

    number: int
    key: str = ""
    value: int | None = 0


def separation(shared: int, diverged: int, new: int, *, ahead: int = 0, **changes: object) -> Separation:
    """Describe logs from offset 0 with so many records in each part; the copy lies `ahead` offsets further."""
    ends = shared + diverged, shared + ahead + new
    blank = Separation(
        lane=LANE,
        source=LogBounds(start=0, end=ends[0], stable_end=ends[0]),
        target=LogBounds(start=0, end=ends[1], stable_end=ends[1]),
        source_next=shared,
        target_next=shared + ahead,
        epoch_end=ends[0],
        diverged=diverged,
        new=new,
        oldest_kept=0,
    )
    return changed(blank, **changes)


def changed(found: Separation, **changes: object) -> Separation:
    """Return a separation with other fields, its own or those of its topic."""
    names_of_topic = set(TopicTraits.__struct_fields__) - set(Separation.__struct_fields__)
    of_topic = {name: changes.pop(name) for name in names_of_topic & changes.keys()}
    return msgspec.structs.replace(found, topic=msgspec.structs.replace(found.topic, **of_topic), **changes)


class Logs:
    """The parts of both logs, and what they are after a failback; `clean`: the target's cleaner has been there."""

    def __init__(self, shared: Iterable[Entry], diverged: Iterable[Entry], new: Iterable[Entry]) -> None:
        self.parts = {LogPart.SHARED: list(shared), LogPart.DIVERGED: list(diverged), LogPart.NEW: list(new)}
        self._there = list(self.parts[LogPart.SHARED])
        self._new = list(self.parts[LogPart.NEW])

    def clean(self, *, drops_tombstones: bool) -> None:
        """Let the target's cleaner come: it keeps the last record of each key, perhaps without tombstones."""
        kept = compacted([*self._there, *self._new], drops_tombstones=drops_tombstones)
        self._new = [one for one in kept if one in self._new]
        self._there = [one for one in kept if one not in self._new]

    def after(self, plan: FailbackPlan) -> tuple[list[Entry], list[Entry]]:
        """Do what a plan says, and return both logs."""
        diverged = self.parts[LogPart.DIVERGED]
        late = [] if plan.choice is FailbackChoice.DISCARD else diverged
        if plan.compares_keys:
            known = {one.key for one in self._new}
            late = [one for one in late if one.key not in known]
        target = [*self._there, *self._new, *late]
        if plan.makes_anew:
            return target, target
        source = [*self.parts[LogPart.SHARED], *diverged, *self._new]
        if plan.compares_keys and not diverged:
            gone = {one.key for one in source} - {one.key for one in target}
            source += [Entry(-1, key, None) for key in sorted(gone)]
        return source, target

    def read_by(self, group: GroupProgress, found: Separation) -> set[int]:
        """Return the numbers of the records that a group has read on either cluster."""
        shared, diverged, new = self.parts.values()
        there = [*shared[: max(0, group.mapped)], *new[: max(0, group.target - found.target_next)]]
        return {one.number for one in (*[*shared, *diverged][: max(0, group.source)], *there)}

    def offset_of(self, place: GroupPlace, plan: FailbackPlan, side: FailbackSide) -> int:
        """Return the offset of a place in the log of one cluster after a failback."""
        log = self.after(plan)[side.value]
        if place.part is LogPart.END:
            return len(log)
        first = self.parts[place.part][0]
        return next(at for at, one in enumerate(log) if one.number == first.number) + place.into


def compacted(log: Iterable[Entry], *, drops_tombstones: bool = False) -> list[Entry]:
    """Return what a cleaner leaves of a log: the last record of each key."""
    last = {one.key: one for one in log}
    kept = sorted(last.values(), key=lambda one: one.number)
    return [one for one in kept if one.value is not None or not drops_tombstones]


def values(log: Iterable[Entry]) -> dict[str, int]:
    """Return the value of each key that is not deleted, as a reader of the whole log has it."""
    last = {one.key: one.value for one in log}
    return {key: value for key, value in last.items() if value is not None}


def names(plan: FailbackPlan) -> list[str]:
    """Return the names of the reasons of a refusal."""
    return [one.name.value for one in plan.refused]


def planned(found: Separation, choice: FailbackChoice) -> FailbackPlan:
    """Plan what must not be refused."""
    plan = plan_failback(found, choice)
    assert plan.refused == (), names(plan)
    return plan

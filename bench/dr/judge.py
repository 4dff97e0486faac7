"""What is wrong with the logs of a side, and with what a consumer group has read. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from bench.dr.records import KEYS, RecordId

Log = tuple[str, int]
"""A partition of a cluster: topic as it is called there, partition."""
_Key = tuple[str, str, int, int]


class Sent(msgspec.Struct, frozen=True):
    """What the writers know: acknowledged records, and records whose fate they do not know."""

    acked: frozenset[RecordId] = frozenset()
    unknown: frozenset[RecordId] = frozenset()

    def __or__(self, other: "Sent") -> "Sent":
        return Sent(self.acked | other.acked, self.unknown | other.unknown)

    def __contains__(self, one: object) -> bool:
        return one in self.acked or one in self.unknown

    def without(self, gone: Collection[RecordId]) -> "Sent":
        """Return the rest: what is gone for good must not be seen any more."""
        return Sent(self.acked - frozenset(gone), self.unknown - frozenset(gone))


class SideFault(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of one side. `foreign`: records that nobody wrote in this round, or that were rolled back; `misplaced`:
    records in another partition than the one they were written to. `example`: one faulty record.
    """

    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    foreign: int = 0
    misplaced: int = 0
    example: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.reordered or self.foreign or self.misplaced)


class GroupFault(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of one group: records that it never read, read again, read in another order than written, or that are on
    no side. `example`: one faulty record.
    """

    skipped: int = 0
    repeated: int = 0
    reordered: int = 0
    foreign: int = 0
    example: str = ""

    def is_clean(self, *, may_repeat: bool) -> bool:
        """Whether nothing is wrong; `may_repeat`: the operation has said that the group would read records again."""
        return not (self.skipped or self.reordered or self.foreign or (self.repeated and not may_repeat))


def judge_side(
    sent: Sent,
    logs: Mapping[Log, Sequence[RecordId]],
    *,
    excused: Collection[RecordId] = frozenset(),
    compacted: Collection[str] = (),
) -> SideFault:
    """Judge the logs of one side, which are read from their beginning of the round to their end.

    `excused`: records that the operation has reported as lost. `compacted`: topics (by the writers' names) of which
    only the last record of each key must be there.
    """
    seen = Counter(one for log in logs.values() for one in log)
    lost = missing(sent.acked - frozenset(excused), seen.keys(), compacted)
    doubled = [one for one, times in seen.items() if times > 1]
    foreign = [one for one in seen if one not in sent.acked and one not in sent.unknown]
    misplaced = [one for (_, partition), log in logs.items() for one in log if one.partition != partition]
    late = [one for log in logs.values() for one in out_of_order(log)]
    return SideFault(
        lost=len(lost),
        doubled=sum(times - 1 for times in seen.values()),
        reordered=len(late),
        foreign=len(foreign),
        misplaced=len(misplaced),
        example=_first(lost=lost, doubled=doubled, foreign=foreign, misplaced=misplaced, reordered=late),
    )


def judge_group(
    wanted: Collection[RecordId], read: Mapping[Log, Sequence[RecordId]], *, compacted: Collection[str] = ()
) -> GroupFault:
    """Judge what a group has read, on both sides one after the other, in the order of reading.

    `wanted`: what it must read; `read`: by the writers' names of topics, so both sides are one sequence.
    """
    times = Counter(one for log in read.values() for one in log)
    skipped = missing(frozenset(wanted), times.keys(), compacted)
    foreign = times.keys() - frozenset(wanted)
    again = [one for one, count in times.items() if count > 1]
    late = [one for log in read.values() for one in out_of_order(dict.fromkeys(log))]
    return GroupFault(
        skipped=len(skipped),
        repeated=sum(count - 1 for count in times.values()),
        reordered=len(late),
        foreign=len(foreign),
        example=_first(skipped=skipped, foreign=foreign, reordered=late, repeated=again),
    )


class Diverged(msgspec.Struct, frozen=True, kw_only=True):
    """What only the old source has. `holes`: partitions in which that is not the end of the log."""

    records: tuple[RecordId, ...] = ()
    holes: tuple[str, ...] = ()


def diverged(
    here: Mapping[Log, Sequence[RecordId]],
    there: Mapping[Log, Sequence[RecordId]],
    *,
    compacted: Collection[str] = (),
) -> Diverged:
    """Compare the logs of the old source with those of the target.

    Compacted topics are left out: each cleaner removes records when it likes, so the logs differ anywhere.
    """
    known = {one for log in there.values() for one in log}
    records: list[RecordId] = []
    holes: list[str] = []
    for (topic, partition), log in here.items():
        kept = [one for one in log if one.topic not in compacted]
        alone = [one not in known for one in kept]
        if sorted(alone) != alone:
            holes.append(f"{topic}-{partition}")
        records += [one for one, is_alone in zip(kept, alone, strict=True) if is_alone]
    return Diverged(records=tuple(records), holes=tuple(holes))


def grown(before: Mapping[Log, Sequence[RecordId]], after: Mapping[Log, Sequence[RecordId]]) -> list[RecordId]:
    """Return the records that came between two readings of one side; a cleaner may have removed others."""
    known = Counter(one for log in before.values() for one in log)
    return sorted((Counter(one for log in after.values() for one in log) - known).elements())


def unlike(
    here: Mapping[Log, Sequence[RecordId]], there: Mapping[Log, Sequence[RecordId]], topics: Collection[str]
) -> list[str]:
    """Name the partitions of topics in which two sides have other records, or another order."""
    logs = sorted({log for log in (*here, *there) if log[0] in topics})
    return [f"{log[0]}-{log[1]}" for log in logs if list(here.get(log, ())) != list(there.get(log, ()))]


def wanted_of(
    read: Mapping[Log, Sequence[RecordId]],
    sides: Iterable[Mapping[Log, Sequence[RecordId]]],
    sent: Sent,
    *,
    excused: Collection[RecordId] = frozenset(),
    compacted: Collection[str] = (),
) -> frozenset[RecordId]:
    """Return what a group must have read, or may have: all that lies on these sides.

    What the operation has reported as lost it may have read before that. A cleaner may have removed since what it has
    read of a compacted topic.
    """
    there = {one for side in sides for log in side.values() for one in log} - frozenset(excused)
    seen = {one for log in read.values() for one in log}
    return frozenset(there | {one for one in seen if one in excused or (one.topic in compacted and one in sent)})


def missing(wanted: Iterable[RecordId], seen: Collection[RecordId], compacted: Collection[str]) -> list[RecordId]:
    """Return what is wanted and not seen; a key of a compacted topic counts as seen with its last record or a later."""
    gone = [one for one in wanted if one not in seen]
    if not any(one.topic in compacted for one in gone):
        return sorted(gone)
    newest: dict[_Key, int] = {}
    for one in seen:
        newest[_key(one)] = max(one.number, newest.get(_key(one), -1))
    return sorted(one for one in gone if one.topic not in compacted or newest.get(_key(one), -1) < one.number)


def out_of_order(log: Iterable[RecordId]) -> Iterator[RecordId]:
    """Yield records that lie behind a later one of their writer; doubled ones are no matter of order."""
    newest: dict[tuple[str, str, int], int] = {}
    for one in log:
        writer = one[:3]
        if one.number < newest.get(writer, -1):
            yield one
        newest[writer] = max(one.number, newest.get(writer, -1))


def _key(one: RecordId) -> _Key:
    return one.stint, one.topic, one.partition, one.number % KEYS


def _first(**faults: Collection[RecordId]) -> str:
    """Name one record of the first fault that there is."""
    for name, records in faults.items():
        for one in records:
            return f"{name}: {one.stint} {one.topic}-{one.partition} number {one.number}"
    return ""

"""Decides where a group goes on the source after a failback that keeps what only the source had.

    source   P | D | N         a group reads in this order there
    target   P | N ... D ...   and in this order here: D was copied late, among the new records

The group's commits on both clusters say how much of P and D it has read: `read` is the first source offset of P and D
that it has not read. While it has not read all of D it stays there, and reads again what it has read of N. It skips
nothing, so no place is below its own commit on the source.
"""

import msgspec

from policies.dr.group_places import PlaceReason


class KeptLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one partition: D is `split` up to `source_end`; new records begin at `target_next`.

    `echoes`: where the target has D, as (first, end). `is_keyed`: it has only some records of D, chosen by their keys,
    so no offset of the target says what of D a group has read. `buried_to`: the source has tombstones behind P up to
    there, of keys that the target has deleted among its new records.
    """

    split: int
    source_end: int
    target_next: int
    echoes: tuple[tuple[int, int], ...] = ()
    is_keyed: bool = False
    buried_to: int = -1

    def new_before(self, target_offset: int) -> int:
        """Return how many offsets of new records lie below a target offset; by keys, those of D count, too."""
        if self.is_keyed:
            return max(0, target_offset - self.target_next)
        late = sum(max(0, min(end, target_offset) - first) for first, end in self.echoes if first < target_offset)
        return max(0, target_offset - self.target_next - late)


class SourcePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group goes on the source: `offset` there, or behind D, where `target_offset` says which new record.

    Both -1: there is no place. `repeats`: new offsets that it reads again.
    """

    offset: int = -1
    target_offset: int = -1
    repeats: int = 0
    reason: PlaceReason = PlaceReason.EXACT


def source_place(logs: KeptLogs, *, source: int, target: int, mapped: int) -> SourcePlace:
    """Return the place of a group by its commits (-1: none).

    `mapped`: the first source offset of P and D whose copy lies at `target` or behind it; -1: the map does not know.
    """
    if target >= 0 and mapped < 0:
        return SourcePlace(offset=source, reason=PlaceReason.NOT_MAPPED)
    read = max(source, mapped)
    if read < 0:
        return SourcePlace()
    again = logs.new_before(target) if target >= 0 else 0
    if read < logs.source_end:
        inside = PlaceReason.INSIDE_DIVERGED if read > logs.split else PlaceReason.EXACT
        return SourcePlace(offset=read, repeats=again, reason=PlaceReason.REPEATS if again else inside)
    if read < logs.buried_to and target <= logs.target_next:  # it has read nothing new, so no deletion either
        return SourcePlace(offset=read)
    return SourcePlace(target_offset=max(target, logs.target_next))

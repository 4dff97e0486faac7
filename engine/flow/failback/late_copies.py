"""Finds where the late copies of a source's own records lie on the target, by the offset map of their copy."""

from engine.core.lane.echoes import Echoes
from engine.core.offset_map.offset_map import Columns


def echoes_of(runs: Columns, first: int, end: int) -> Echoes:
    """Return the target ranges of the copied source offsets from `first` up to `end`; neighbours are joined.

    `runs`: of the map, those that hold these offsets among them.
    """
    found: list[tuple[int, int]] = []
    for source, target, count in zip(*runs, strict=True):
        begin, until = max(source, first), min(source + count, end)
        if begin >= until:
            continue
        at = target + begin - source
        if found and found[-1][1] == at:
            found[-1] = found[-1][0], at + until - begin
        else:
            found.append((at, at + until - begin))
    return tuple(found)


def size_of(echoes: Echoes) -> int:
    """Return how many records the ranges hold."""
    return sum(end - first for first, end in echoes)

"""One story for every system: a topic that fills, a move from A to B by plan, and the way back. Its figures. Pure.

A system is a script of what a person does. `Chapter` is one move; the applications write and read between the moves.
"""

from collections.abc import Sequence

import msgspec

from bench.story.desk import Typed
from bench.story.judging import LogFault, ReadFault


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """One move from a cluster to the other one.

    `minutes`: from the first thing that was done until the applications run on the other cluster. `still_s`: seconds of
    it in which no application wrote. `copied_bytes`: growth of the topic's segments on the cluster that they move to,
    since it served last (or since it was made anew). `again`: records that the group read again there.
    """

    name: str
    minutes: float
    still_s: float
    copied_bytes: int
    again: int
    done: tuple[Typed, ...]

    @property
    def steps(self) -> int:
        """Things that a person did; a look that was repeated counts once."""
        return len(self.done)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The whole story of one system."""

    chapters: tuple[Chapter, ...]
    reading: ReadFault
    log: LogFault
    """The log of A in the end."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing was lost, so that the figures may be compared."""
        return self.reading.is_whole and not self.log.lost


def totals(told: Told) -> dict[str, float]:
    """Return the figures of the whole story."""
    chapters = told.chapters
    return {
        "minutes": round(sum(one.minutes for one in chapters), 2),
        "still_s": round(sum(one.still_s for one in chapters), 1),
        "steps": sum(one.steps for one in chapters),
        "again": told.reading.again,
        "copied_back_mib": round(chapters[-1].copied_bytes / 2**20, 1),
        "lost": told.log.lost,
        "missed": told.reading.missed,
    }


def moved_since(typed: Sequence[Typed], first: int) -> tuple[Typed, ...]:
    """Return what was done since then."""
    return tuple(typed[first:])

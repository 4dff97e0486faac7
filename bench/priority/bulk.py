"""Watches the copy of the bulk while the hot topic is measured, and finds the seconds that count."""

import time
from collections.abc import Sequence

import msgspec

from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.latency.stamped import Plan

_LOOK_S = 0.1
_FULL_SPEED_S = 1.0
"""The bulk is copied at full speed so many seconds after its first records were seen."""
_MARKERS = 1
"""A partition may begin with one marker and no record."""


class Look(msgspec.Struct, frozen=True):
    """The ends of the copy at one instant (monotonic seconds)."""

    at_s: float
    ends: tuple[int, ...]

    @property
    def has_begun(self) -> bool:
        """Whether some records were copied."""
        return max(self.ends, default=0) > _MARKERS

    def is_over(self, backlog: Backlog) -> bool:
        """Whether a partition is copied whole: from then on the bulk is not what it was."""
        return any(end >= count for end, count in zip(self.ends, backlog.counts, strict=True))


class Window(msgspec.Struct, frozen=True):
    """Monotonic seconds between which records count, and records of the bulk that were copied in between."""

    from_s: float
    to_s: float
    bulk_records: int

    @property
    def seconds(self) -> float:
        """Length."""
        return self.to_s - self.from_s

    def numbers(self, plan: Plan, began_s: float) -> tuple[int, int]:
        """Return the first number that was due in the window, and the first one behind it."""
        first, end = ((at_s - began_s) * plan.per_s for at_s in (self.from_s, self.to_s))
        return min(plan.records, max(0, int(first))), min(plan.records, max(0, int(end)))


class BulkWatch:
    """Looks at the copy of a backlog ten times a second."""

    def __init__(self, peek: KafkaPeek, topic: str, backlog: Backlog) -> None:
        self._peek, self._topic, self._backlog = peek, topic, backlog
        self.looks: list[Look] = []

    def until_begun(self, give_up_s: float, system: str) -> float:
        """Wait until the bulk is copied at full speed; return when. Raises BenchError."""
        while not self._look().has_begun:
            if time.monotonic() > give_up_s:
                raise BenchError(system, f"nothing of the bulk copied to {self._topic}")
            time.sleep(_LOOK_S)
        return self.looks[-1].at_s + _FULL_SPEED_S

    def until(self, to_s: float) -> None:
        """Look until an instant, or until the first partition of the bulk is copied whole."""
        while (now_s := time.monotonic()) < to_s:
            if self._look().is_over(self._backlog):
                return
            time.sleep(min(_LOOK_S, max(0.0, to_s - now_s)))

    def _look(self) -> Look:
        ends = self._peek.end_offsets(self._topic, self._backlog.partitions)
        self.looks.append(Look(time.monotonic(), tuple(ends)))
        return self.looks[-1]


def window(looks: Sequence[Look], backlog: Backlog, from_s: float, to_s: float) -> Window:
    """Return the part of the wanted seconds in which every partition of the bulk still had records to copy.

    It begins and ends with a look.
    """
    inside = [look for look in looks if from_s <= look.at_s <= to_s and look.has_begun and not look.is_over(backlog)]
    if not inside:
        return Window(from_s, from_s, 0)
    first, last = inside[0], inside[-1]
    return Window(first.at_s, last.at_s, sum(last.ends) - sum(first.ends))

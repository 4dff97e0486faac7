"""Decides how many executors a session should have: one, until a large job asks for all. Knows no Spark and no Ray."""

import math
from typing import NamedTuple


class ExecutorTarget:
    """The number of executors over time. `most`: all of the configuration; `idle_s`: how long they stay after a job.

    With `idle_s` 0 all run all the time.
    """

    def __init__(self, most: int, idle_s: float) -> None:
        self._most, self._idle_s = most, idle_s
        self._all_until_s = -math.inf if idle_s else math.inf

    @property
    def at_first(self) -> int:
        """The number of executors with which a session begins."""
        return 1 if self._idle_s else self._most

    def wanted(self, now_s: float, *, large: bool) -> int:
        """Return the number of executors to have now; `large`: a large job runs."""
        if large:
            self._all_until_s = max(self._all_until_s, now_s + self._idle_s)
        return self._most if now_s < self._all_until_s else 1


class SizeSteps(NamedTuple):
    """What brings a session to its size: executors to add, and to end: those that wait for a place, those that run."""

    add: int = 0
    end_waiting: int = 0
    end_running: int = 0


def steps_to(wanted: int, *, running: int, named: int) -> SizeSteps:
    """Return what is missing or too many. `named`: executors that Ray knows; `running`: those that Spark knows.

    An executor that has no place yet, or is starting, is named and does not run. It counts: each check would add one.
    """
    surplus = max(0, named - wanted)
    end_waiting = min(surplus, max(0, named - running))
    return SizeSteps(add=max(0, wanted - named), end_waiting=end_waiting, end_running=surplus - end_waiting)

"""The steps of a failback, in their order. Each may be done again after a kill; the record says which is next.

fence -> retention -> count -> export -> late copy -> turn -> new copy -> groups -> close -> done
| point of no return
"""

from enum import StrEnum


class FailbackStep(StrEnum):
    """What a failback does next; the names are stable."""

    FENCE = "fence"
    """No producer writes to the source: the operator has confirmed it."""
    RETENTION = "retention"
    """The source's topics delete nothing by time, from before anything is counted."""
    COUNT = "count"
    """Find the exact end of each copy; refuse what would do harm."""
    EXPORT = "export"
    """Write to files what only the source has."""
    LATE = "late-copy"
    """Copy that to the target, behind what the target got; record where it lies there."""
    TURN = "turn"
    """Let the reverse flow begin behind what both clusters have."""
    NEW = "new-copy"
    """Copy to the source what only the target got."""
    GROUPS = "groups"
    """Commit for each group on the source the first record that it has not read."""
    CLOSE = "close"
    """Restore configs, and let the map of the reverse flow begin where all groups are equal."""
    DONE = "done"

    @property
    def next(self) -> "FailbackStep":
        """The step after this one."""
        steps = list(FailbackStep)
        return steps[min(steps.index(self) + 1, len(steps) - 1)]

    @property
    def is_reversible(self) -> bool:
        """Whether no record was written to either cluster before this step begins."""
        steps = list(FailbackStep)
        return steps.index(self) <= steps.index(FailbackStep.EXPORT)

"""The report of one drill: how long each step took, what would have been lost, what would have hurt."""

from collections.abc import Sequence
from enum import Enum

import msgspec

from policies.dr.drill import DrillFinding

FINDINGS_KEPT = 100
"""Findings that a stored report holds at most; their number is always whole."""
FINDINGS_SHOWN = 3
"""Findings that the status of a mirror shows."""


class DrillStep(Enum):
    """A step of a drill, in the order of the steps; the names are stable."""

    CLEAN = "clean"
    """Take away what an earlier drill has left."""
    SURVEY = "survey"
    """Read what a failover would lose at this moment."""
    DRAIN = "drain"
    """Wait until every partition's copy has passed the source's end at the beginning."""
    GROUPS = "groups"
    """Translate every group and commit its offsets under a shadow name."""
    CONSUMERS = "consumers"
    """Start a stock consumer at each commit, and wait for its next record."""
    COMPARE = "compare"
    """Compare what they read with the source."""
    PRODUCERS = "producers"
    """Create the scratch topic and produce to each of its partitions."""
    READINESS = "readiness"
    """Compare configs, rights, limits and quotas, and look for partitions that would refuse producers."""
    TAKE_AWAY = "take-away"


IN_RTO = (DrillStep.DRAIN, DrillStep.GROUPS, DrillStep.CONSUMERS)
"""The steps that a failover has, too. It also pauses and stops the flow, which takes a few seconds."""


class DrillStepTime(msgspec.Struct, frozen=True):
    """How long a step took, in seconds."""

    step: DrillStep
    seconds: float


class DrillLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover would have lost if the source had been gone when the drill began, of all topics together.

    `seconds`: the age of the oldest lost record; 0.0: nothing is lost; -1.0: not known. `unknown`: partitions about
    which nothing is known. `records` and `bytes` are -1 if the drill ended before it knew them.
    """

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    unknown: int = 0


UNKNOWN_LOSS = DrillLoss(records=-1, bytes=-1, seconds=-1.0)
"""That of a drill which has not read what would be lost, or could not."""


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """One drill. `failed`: why it did not come to its end, empty if it did. `left`: what could not be taken away.

    `hurts`: how many findings would have hurt in a failover. `findings`: these first; a stored report has the first
    hundred. `partitions`, `groups`: how many were drained and translated; `consumers`: how many groups were read.
    """

    run_id: str
    flow: str
    began_ms: int
    ended_ms: int
    scheduled: bool = False
    steps: tuple[DrillStepTime, ...] = ()
    loss: DrillLoss = DrillLoss()
    partitions: int = 0
    groups: int = 0
    consumers: int = 0
    hurts: int = 0
    findings: tuple[DrillFinding, ...] = ()
    left: tuple[str, ...] = ()
    failed: str = ""

    @property
    def rto_s(self) -> float:
        """The recovery time as measured, in seconds: the steps that a failover has, too; -1.0: one was not finished."""
        if self.failed and not {one.step for one in self.steps}.issuperset(IN_RTO):
            return -1.0
        return sum(one.seconds for one in self.steps if one.step in IN_RTO)

    @property
    def passed(self) -> bool:
        """Whether a failover would have gone well, as far as a drill can say."""
        return not self.failed and not self.hurts

    def cut(self, findings: int) -> "DrillReport":
        """Return the report with the first findings only."""
        return msgspec.structs.replace(self, findings=self.findings[:findings])


class DrillStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The drills of a flow as a running mirror knows them; times are Unix ms, -1: none.

    `every_s`: seconds from one scheduled drill to the next, 0: none is scheduled. `since_ms`: when the mirror began to
    look. `trouble`: why a scheduled drill did not run, or why nothing is known.
    """

    every_s: int = 0
    since_ms: int = -1
    next_ms: int = -1
    runs: bool = False
    last: DrillReport | None = None
    trouble: str = ""

    def age_ms(self, now_ms: int) -> int:
        """Return the time since the last drill began, or since the mirror began to look if none is known."""
        began_ms = self.last.began_ms if self.last is not None else self.since_ms
        return max(0, now_ms - began_ms) if began_ms >= 0 else 0


def sorted_findings(findings: Sequence[DrillFinding]) -> tuple[DrillFinding, ...]:
    """Return the findings, those that would have hurt first."""
    return tuple(sorted(findings, key=lambda one: not one.hurts))

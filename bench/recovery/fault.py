"""A fault: its needs, its action, and how long a partition may make no progress."""

import enum
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench.recovery.scene import Cause, Scene
from bench.recovery.stage import StageKind
from tests.harness.ray_cluster import RayCluster

NOISE_S = 1.0
"""Seconds of pause that load and machine may cause; a fault that must cause no pause must stay below."""


class Bound(enum.StrEnum):
    """What is bounded."""

    PAUSE = "pause"
    """The longest time without progress of any partition."""
    AFTER_CAUSE = "after cause"
    """The longest wait after the cause was over."""
    NONE = "no pause"
    """The longest time without progress, beyond the usual one of the same run."""


def nothing(_: Scene) -> None:
    """Prepare or check nothing."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault. `act` does it and returns the time of its cause; `check` adds failures and notes to the scene."""

    id: str
    act: Callable[[Scene], Cause]
    bound: Bound = Bound.AFTER_CAUSE
    bound_s: float = 10.0
    healthy_s: float = math.inf
    """Seconds without progress that a lane may have although the fault does not hit it, from the start of the fault."""
    stage: StageKind = field(default_factory=StageKind)
    ray: Callable[[Path], AbstractContextManager[RayCluster]] | None = None
    """Starts a separate Ray cluster; without it the mirror runs on local Ray."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Settings of the mirror, in addition to the usual ones."""
    target_loses: bool = False
    """Whether acknowledged records of the target are lost, and copied again to other offsets."""
    copies_s: float = 0.0
    """About how many seconds of its cause the mirror copies, at least half of what it usually does. A backlog over a
    distance lasts as long; 40 are enough, because more would show the same again."""
    more_topics: tuple[str, ...] = ()
    """Name suffixes of further topics of the flow; `prepare` creates them."""
    more_partitions: int = 0
    """Partitions that the fault adds."""
    prepare: Callable[[Scene], None] = nothing
    """Called when the mirror has been started, before records flow."""
    check: Callable[[Scene], None] = nothing
    mend: Callable[[Scene], None] = nothing
    """Restores what the fault removed for good, so that another fault can follow."""

    @property
    def spares_lanes(self) -> bool:
        """Whether it leaves some lanes alone; these are judged."""
        return self.healthy_s < math.inf

    def is_met(self, pause_s: float, after_s: float, usual_s: float, healthy_s: float = 0.0) -> bool:
        """Whether the measured times keep the bounds; `healthy_s`: the longest wait of a lane that it did not hit."""
        return healthy_s <= self.healthy_s and self._is_met(pause_s, after_s, usual_s)

    def _is_met(self, pause_s: float, after_s: float, usual_s: float) -> bool:
        match self.bound:
            case Bound.PAUSE:
                return pause_s <= self.bound_s
            case Bound.AFTER_CAUSE:
                return after_s <= self.bound_s
            case Bound.NONE:
                return pause_s - usual_s <= self.bound_s

"""The objects of a run that a fault may use: clusters, the mirror's processes, the load, and notes for the judge."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import psutil

from bench.errors import BenchError
from bench.recovery.helper import Helper
from bench.recovery.mirror import COPIER, COPIERS, SUPERVISOR, MirrorRun, is_actor
from bench.recovery.stage import Stage
from tests.harness.ray_cluster import RayCluster

_POLL_S = 0.1
_BALANCED_S = 120.0


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault began and when its cause was over; monotonic seconds."""

    began: float
    ended: float


class Scene:
    """One run: everything is up, records flow. `notes` are shown with the row, `failures` make the run fail."""

    def __init__(
        self, stage: Stage, mirror: MirrorRun, load: Helper, topic: str, partitions: int, ray: RayCluster | None
    ) -> None:
        self.stage, self.mirror, self.load, self.ray = stage, mirror, load, ray
        self.movers: Helper | None = None
        """Groups that move during the run, if it has any."""
        self.checkpoints_from = 0
        """The first offset of the checkpoints of this run in their topic, which has those of earlier runs too."""
        self.topic, self.partitions = topic, partitions
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.hit: dict[int, tuple[str, ...]] | None = None
        """Which partitions of each lane the last fault hit; a lane without any is healthy. None: it hits all."""
        self.blanks = 0
        """Offsets of every partition of the source that hold no record."""
        self.kept: dict[str, Any] = {}
        """Facts that a fault stores for its check."""

    @property
    def target_topic(self) -> str:
        """The name of the copy."""
        return f"source.{self.topic}"

    @property
    def cluster(self) -> RayCluster:
        """The Ray cluster of a fault that needs one."""
        if self.ray is None:
            raise BenchError("scene", "this fault needs a Ray cluster")  # a bug of the table
        return self.ray

    def copiers(self) -> list[psutil.Process]:
        """List the living copier processes, oldest first. Raises BenchError without any."""
        return self._actors(COPIER)

    def supervisor(self) -> psutil.Process:
        """Give the supervisor's process. Raises BenchError without any."""
        return self._actors(SUPERVISOR)[0]

    def find(self, title: str) -> list[psutil.Process]:
        """List the living processes of an actor, by its title."""
        if self.ray is None:
            return self.mirror.actors(title)
        return [one for node in self.ray.nodes for one in node.workers() if is_actor(one, title)]

    def _actors(self, title: str) -> list[psutil.Process]:
        found = self.find(title)
        if not found:
            raise BenchError("scene", f"no process {title}; {self.mirror.told()}")
        return found

    def until(self, holds: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
        """Wait until something holds. Raises BenchError with the mirror's output if it does not."""
        give_up_at = time.monotonic() + deadline_s
        while not holds():
            if time.monotonic() > give_up_at:
                raise BenchError("scene", f"not within {deadline_s:.0f} s: {what}; {self.mirror.told()}")
            time.sleep(_POLL_S)

    def wait_balanced(self) -> None:
        """Wait until every copier has its share of the sets: a set that moves needs what its lanes seldom need."""
        self.until(lambda: _is_balanced(self.mirror.status()), "the copiers share the sets", _BALANCED_S)

    def stay(self, seconds: float) -> None:
        """Wait and do nothing; raises BenchError if the load ends during this time."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            self.load.require_running()
            time.sleep(min(left_s, 0.5))


def _is_balanced(status: dict[str, Any]) -> bool:
    held = [len(one["set_ids"]) for one in status["copiers"] if one["state"] == "ready"]
    return len(held) == COPIERS and max(held) - min(held) <= 1

"""Defines a step of a failback, and what steps share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from engine.flow.failback.errors import FailbackReason, FailbackRefused
from engine.flow.failback.rows import LANES, LATE, LaneRow, LateRow
from engine.flow.failback.world import FailbackWorld
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.ports.ports import LATEST, Cluster
from policies.model import TopicPartition


class FailbackStep(ABC):
    """A step of one failback that needs no undo."""

    def __init__(self, world: FailbackWorld) -> None:
        self.world = world

    @abstractmethod
    async def do(self, run: StepRun) -> Facts:
        """See Step."""

    async def undo(self, run: StepRun) -> Facts:  # noqa: ARG002
        """See Step: there is nothing to take back."""
        return {}

    # --- what several steps ask ----------------------------------------------------------------------------------

    @staticmethod
    def rows(run: StepRun) -> tuple[LaneRow, ...]:
        """Return the counted partitions."""
        return run.notes(LANES, LaneRow) or ()

    @classmethod
    def old_rows(cls, run: StepRun) -> tuple[LaneRow, ...]:
        """Return the counted partitions whose topic has not been made anew."""
        return tuple(row for row in cls.rows(run) if not row.made)

    @staticmethod
    def late(run: StepRun) -> dict[TopicPartition, LateRow]:
        """Return the late copies, by source partition."""
        return {TopicPartition(one.topic, one.partition): one for one in run.notes(LATE, LateRow) or ()}

    async def source_ends(self, rows: Sequence[LaneRow]) -> dict[TopicPartition, int]:
        """Ask where the source partitions end. Raises FailbackRefused if one does not say, or is not decided."""
        return await decided(self.world.source.cluster, [row.source for row in rows], "source")


async def decided(cluster: Cluster, partitions: Sequence[TopicPartition], side: str) -> dict[TopicPartition, int]:
    led = await cluster.leaders(partitions) if partitions else {}
    ends = await offsets_by_leaders(cluster, led, LATEST)
    stable = await cluster.stable_ends(list(led)) if led else {}
    reasons = [
        FailbackReason("not-judged", str(one), f"its leader on the {side} does not say where its log ends")
        for one in partitions
        if one not in ends or one not in stable
    ]
    reasons += [
        FailbackReason(f"{side}-transaction-open", str(one), f"a transaction is open from offset {stable[one]}")
        for one in partitions
        if one in ends and stable.get(one, ends[one]) < ends[one]
    ]
    if reasons:
        raise FailbackRefused(reasons)
    return ends

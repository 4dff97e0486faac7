"""Judges a failover's drain per source partition: whether the partition is completely copied, and if not, why."""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from engine.core.reports.progress import IN_QUARANTINE, LaneProgress, unowned
from policies.model import LaneName, TopicPartition
from policies.words import counted

ABSENT = "absent"
"""The state of a partition that the source lists but the mirror does not know."""
NOT_TAKEN_UP = "the mirror does not copy it yet: it was created after the last check of the source's topics"
_FOR_AN_OPERATOR = frozenset({"failed", "stopped", "paused", ABSENT})
"""States in which waiting does not help."""
IsHeartbeats = Callable[[str], bool]
"""Whether a source topic of this name holds heartbeats: they are written all the time, so they are never all copied."""
_TOO_LATE = "not copied before the flow was stopped"
_WRITTEN_SINCE = "written to the source after the flow had caught up"


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """The end offsets of the source's partitions (high watermarks); `unknown`: partitions without a known end, and why.

    `gone`: why the source does not answer at all; empty if it answers something.
    """

    ends: dict[TopicPartition, int] = {}
    unknown: dict[TopicPartition, str] = {}
    gone: str = ""

    def plus(self, later: "Ends") -> "Ends":
        """Add later answers about some of the partitions."""
        known = self.ends | later.ends
        unknown = {lane: why for lane, why in (self.unknown | later.unknown).items() if lane not in known}
        return Ends(ends=known, unknown=unknown, gone=self.gone)

    def without(self, is_left_out: IsHeartbeats) -> "Ends":
        """Leave out the partitions of some topics."""
        return Ends(
            ends={lane: end for lane, end in self.ends.items() if not is_left_out(lane.topic)},
            unknown={lane: why for lane, why in self.unknown.items() if not is_left_out(lane.topic)},
            gone=self.gone,
        )

    def end(self, lane: TopicPartition) -> int:
        """Return the end offset of a partition, -1 if it is not known."""
        return self.ends.get(lane, -1)

    def why_unknown(self, lane: TopicPartition) -> str:
        """Say why the end of a partition is not known."""
        if self.gone:
            return f"the source does not answer: {self.gone}"
        return self.unknown.get(lane, "the source does not list the partition any more")


class PartitionDrain(msgspec.Struct, frozen=True, kw_only=True):
    """One source partition after a failover. Offsets are next offsets; -1 if unknown.

    `records`: source offsets that are not on the target; `why`: why it is not drained, empty if it is.
    `as_of_ms`: when the position or offset sync with `source_next` was written (Unix time, ms); -1 if a running mirror
    reported it.
    `heartbeats`: the topic holds heartbeats, so it does not matter whether the partition is drained.
    """

    topic: str
    partition: int
    drained: bool
    source_next: int
    source_end: int
    records: int
    why: str = ""
    as_of_ms: int = -1
    heartbeats: bool = False


def absent_lanes(known: Iterable[LaneProgress], ends: Ends) -> list[LaneProgress]:
    """Make lanes for the partitions that the source lists but the mirror does not know."""
    missing = (ends.ends.keys() | ends.unknown.keys()) - {lane.lane for lane in known}
    return [
        msgspec.structs.replace(unowned(LaneName(lane, lane), "", -1, NOT_TAKEN_UP), state=ABSENT)
        for lane in sorted(missing)
    ]


def is_waited_for(lane: LaneProgress, ends: Ends) -> bool:
    """Whether a lane has records to copy, and waiting may help; false if the source's end is not known."""
    behind = lane.source_next < ends.end(lane.lane)
    return behind and lane.state not in _FOR_AN_OPERATOR and not lane.reason.startswith(IN_QUARANTINE)


def judged(
    lanes: Iterable[LaneProgress],
    before: Mapping[TopicPartition, LaneProgress],
    drained_to: Ends,
    ends: Ends,
    is_heartbeats: IsHeartbeats = lambda _topic: False,
) -> tuple[PartitionDrain, ...]:
    """Judge stopped lanes: a lane is drained if it is copied and committed up to the source's end.

    `before`: the lanes before the flow was paused; `drained_to`: the ends that the failover waited for; `ends`: the
    source's ends now.
    """
    return tuple(
        _judged(lane, before.get(lane.lane, lane), drained_to, ends, is_heartbeats)
        for lane in sorted(lanes, key=lambda lane: lane.lane)
    )


def _judged(
    lane: LaneProgress, before: LaneProgress, drained_to: Ends, ends: Ends, is_heartbeats: IsHeartbeats
) -> PartitionDrain:
    end, at = ends.end(lane.lane), lane.source_next
    left = max(0, end - at) if end >= 0 and at >= 0 else -1
    why = _why(lane, before, drained_to.end(lane.lane), left, ends)
    return PartitionDrain(
        topic=lane.lane.topic,
        partition=lane.lane.partition,
        drained=not why,
        source_next=at,
        source_end=end,
        records=left,
        why=why,
        heartbeats=is_heartbeats(lane.lane.topic),
    )


def _why(lane: LaneProgress, before: LaneProgress, drained_to: int, left: int, ends: Ends) -> str:
    """Say why a partition is not drained. The first cause is the one that an operator must check first."""
    if ends.end(lane.lane) < 0:
        return f"the end of the source partition is not known: {ends.why_unknown(lane.lane)}"
    if lane.state == "failed":
        return f"the partition has failed: {lane.reason}"
    if lane.source_next < 0:
        return lane.reason or before.reason or f"its position is not known ({lane.state})"
    if ends.end(lane.lane) < lane.source_next:
        return (
            f"the source ends at {ends.end(lane.lane)}, below what was copied ({lane.source_next}): it lost records, or"
            " a stale leader has answered"
        )
    if left:
        since = 0 <= drained_to <= lane.source_next
        return f"{counted(left, 'record')} left: {before.reason or (_WRITTEN_SINCE if since else _TOO_LATE)}"
    if lane.state == "acquiring":
        return f"it needs a new owner, which may have to copy some of it again: {lane.reason or before.reason}"
    return (
        "" if lane.committed else f"it is copied, but not committed yet ({lane.reason or before.reason or lane.state})"
    )


def undrained(rows: Collection[PartitionDrain]) -> dict[TopicPartition, str]:
    """Return the partitions that are not drained, each with the cause; those of heartbeats do not count."""
    return {TopicPartition(row.topic, row.partition): row.why for row in rows if row.why and not row.heartbeats}


def uncounted(rows: Collection[PartitionDrain]) -> list[PartitionDrain]:
    """Return the partitions of heartbeats that are not drained."""
    return [row for row in rows if row.why and row.heartbeats]


def records_left(rows: Collection[PartitionDrain]) -> int:
    """Sum the source offsets that are not on the target, without heartbeats; -1 if some are unknown."""
    counts = [row.records for row in rows if not row.heartbeats]
    return -1 if -1 in counts else sum(counts)

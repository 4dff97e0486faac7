"""Defines the rows that a failback stores beside its operation, before the effects that they name."""

from collections.abc import Collection

import msgspec

from engine.flow.failback.group_moves import FailedBackLane
from policies.dr.group_moves import KeptLogs
from policies.model import LaneName, TopicPartition

LANES, LATE, GROUPS, UNREAD = "lanes", "late", "groups", "groups-unread"
ANEW, COMMITS, KEYED, BEFORE = "anew", "commits", "keyed", "groups-before"
"""The names of the notes; those of lent configs are `LENT_NOTES`."""


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as it was counted; offsets are next offsets.

    `split`: where its copy ended on the source; `target_next`: on the target. `source_end`: the end of the source then.
    `diverged`, `new`: the records that only the source, and only the target had then. `anew`: its topic is to be made
    anew on the source; `made`: that has been done, so the source has nothing of what was counted any more.
    `compacted`: what only the source has is copied by its keys. `buries`: the target may have lost tombstones, so keys
    that it lacks are deleted on the source. `tombstones_until_ms`: until then (Unix ms) it keeps all of them; -1: its
    topic is not compacted. `lacks_by_deletion`: a key of P that it lacks was deleted there. `lacking`: so these are
    deleted, too, not only keys whose tombstones it has still. `expired`: offsets below `expired_to` that the target's
    retention deleted before they were copied.
    """

    topic: str
    partition: int
    copy_topic: str
    split: int
    target_next: int
    source_end: int
    diverged: int
    new: int
    anew: bool = False
    made: bool = False
    compacted: bool = False
    buries: bool = False
    tombstones_until_ms: int = -1
    lacks_by_deletion: bool = False
    lacking: bool = False
    expired: int = 0
    expired_to: int = -1

    def may_lack_tombstones(self, now_ms: int) -> bool:
        """Whether the target's cleaner may have removed tombstones by then that were there when this was counted."""
        return not self.buries and 0 <= self.tombstones_until_ms <= now_ms

    @property
    def is_keyed(self) -> bool:
        """Whether the target gets only some of the records that only the source has, by their keys."""
        return self.compacted and self.diverged > 0

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """Its copy on the target."""
        return TopicPartition(self.copy_topic, self.partition)

    @property
    def forward(self) -> LaneName:
        """The lane of the flow."""
        return LaneName(self.source, self.target)

    @property
    def back(self) -> LaneName:
        """The lane of the reverse flow."""
        return LaneName(self.target, self.source)


class LateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition after its late copy: the source's end, which new records follow, and the copies' places."""

    topic: str
    partition: int
    source_end: int
    echoes: tuple[tuple[int, int], ...] = ()


class GroupCommit(msgspec.Struct, frozen=True):
    """A group's commit on the source before its topic was deleted (brokers delete it, too), or before it was placed.

    `offset`: -1: it had none.
    """

    group: str
    topic: str
    partition: int
    offset: int


class KeyedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of D that is appended by its keys in one transaction, or the tombstones of a partition.

    `side`: the cluster that it is written to. `producer_id`: of the writer. `first`: the end of that log before the
    first try. `source_from`, `source_end`: the source offsets of the part.
    """

    side: str
    topic: str
    partition: int
    producer_id: int
    first: int
    source_from: int
    source_end: int


class UnreadGroup(msgspec.Struct, frozen=True):
    """A group that could not be read on one of the clusters, so it was not moved; or a broker that names no groups."""

    group: str
    why: str


def kept_lane(row: LaneRow, late: LateRow, source_start: int, target_start: int) -> FailedBackLane:
    """Return the parts of both logs of a partition, which begin at these offsets.

    A part without records counts as none: it may be markers.
    """
    end = late.source_end if late.echoes or row.is_keyed else row.split
    logs = KeptLogs(
        split=row.split,
        source_end=end,
        target_next=row.target_next,
        echoes=late.echoes,
        is_keyed=row.is_keyed,
        buried_to=late.source_end if row.buries and not row.made else row.split,
    )
    discards = row.made and bool(row.diverged) and not late.echoes
    lane = FailedBackLane(source=row.source, target=row.target, logs=logs, is_anew=row.made, discards=discards)
    return msgspec.structs.replace(lane, source_start=source_start, target_start=target_start)


def made_lanes(topic: str, copy_topic: str, known: Collection[int], partitions: int) -> list[LaneRow]:
    """Return rows for the partitions that a topic made anew has more than before; nothing of them was shared."""
    return [
        LaneRow(
            topic=topic,
            partition=number,
            copy_topic=copy_topic,
            split=0,
            target_next=0,
            source_end=0,
            diverged=0,
            new=0,
            anew=True,
            made=True,
        )
        for number in range(partitions)
        if number not in known
    ]

"""One partition after its copy has ended: what both clusters have, and what each of them has alone.

    source   |==== P ====|== D ==|      P: shared. D, divergence: records that were never copied
    target   |==== P ====|== N ==|      N, new: records that applications wrote to the copy afterwards
                         ^ source_next, target_next

A client cannot cut the end of a log (DeleteRecords deletes from its start), so D stays on the source unless the topic
is made anew. All offsets are next offsets; -1: not known.
"""

from enum import Enum

import msgspec

from policies.model import LaneName


class LogPart(Enum):
    """A part of the logs, or the end of both."""

    SHARED = "shared"
    DIVERGED = "diverged"
    NEW = "new"
    END = "end"


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where one log begins and ends; `stable_end`: its last stable offset, where the first open transaction begins."""

    start: int = -1
    end: int = -1
    stable_end: int = -1

    @property
    def is_known(self) -> bool:
        """Whether its leader has answered for all three."""
        return min(self.start, self.end, self.stable_end) >= 0

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open in it."""
        return self.stable_end < self.end


class TopicTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What a failback must know of a topic. `feeds`: other clusters that the source topic is copied to.

    `is_compacted`: on either cluster. `is_expiring`: the target's topic also deletes by time or size. `unknown`: why
    this could not be read, empty if it could.
    """

    source_partitions: int = 1
    target_partitions: int = 1
    is_compacted: bool = False
    is_expiring: bool = False
    delete_retention_ms: int = 86_400_000
    source_delete_retention_ms: int = 86_400_000
    feeds: tuple[str, ...] = ()
    unknown: str = ""


class Separation(msgspec.Struct, frozen=True, kw_only=True):
    """One partition on both clusters; `unknown`: why it cannot be judged, empty if it can.

    `epoch_end`: the source offset where its log leaves the leader epochs that were copied (KIP-320); -1: not known.
    `diverged`, `new`: records in D and N. `diverged_end`, `new_end`: the offsets after their last records, which
    markers may follow; -1: not known. `oldest_kept`: the source offset of the first record that the target still
    has; -1: not known. `apart_ms`: the most time that may have passed since the copy ended; 0: N is empty. `ended_ms`:
    when the copy ended at the earliest (Unix ms); -1: not known.
    `erased`: the source's cleaner has been in D, and may have removed tombstones that were never copied.
    `left_out`: records of P that the target refused and that were neither replayed nor dropped: no copy has them.
    `replayed`: records of P that were replayed from the quarantine behind the end of the copy, or may have been.
    `between`: records that applications wrote to the target before the last copied one arrived, so they lie in P.
    `is_unshared`: neither log holds a record of P, so there is nothing shared that could differ.
    """

    lane: LaneName
    topic: TopicTraits = TopicTraits()
    source: LogBounds = LogBounds()
    target: LogBounds = LogBounds()
    source_next: int = -1
    target_next: int = -1
    epoch_end: int = -1
    diverged: int = 0
    new: int = 0
    diverged_end: int = -1
    new_end: int = -1
    oldest_kept: int = -1
    apart_ms: int = 0
    ended_ms: int = -1
    erased: bool = False
    left_out: int = 0
    replayed: int = 0
    between: int = 0
    is_unshared: bool = False
    unknown: str = ""

    @property
    def split(self) -> int:
        """The source offset where P ends."""
        return min(self.source_next, self.epoch_end) if self.epoch_end >= 0 else self.source_next

    @property
    def is_source_short(self) -> bool:
        """Whether the source has lost records that were copied: its log ends before, or is another one from there."""
        return self.source.end < self.source_next or 0 <= self.epoch_end < self.source_next

    @property
    def is_epoch_unknown(self) -> bool:
        """Whether nothing says that the source's log is still the one that was copied, and it could be another one."""
        return self.epoch_end < 0 and self.source_next > self.source.start and not self.is_unshared

    @property
    def expired_here(self) -> int:
        """How many offsets of D the source's retention has deleted before they were copied."""
        return max(0, self.source.start - self.split) if self.source_next >= 0 else 0

    @property
    def is_new_expired(self) -> bool:
        """Whether the target's retention has deleted the beginning of N."""
        return self.target.start > self.target_next

    @property
    def are_tombstones_gone(self) -> bool:
        """Whether the target's cleaner may have removed a tombstone of N.

        A cleaner keeps a tombstone for `delete.retention.ms` after it has first seen it (KIP-534), so at least so long
        after it was written.
        """
        return self.topic.is_compacted and self.apart_ms >= self.topic.delete_retention_ms

    @property
    def tombstones_until_ms(self) -> int:
        """Until when (Unix ms) the target keeps every tombstone of N for certain; -1: its topic is not compacted."""
        return max(0, self.ended_ms) + self.topic.delete_retention_ms if self.topic.is_compacted else -1

    @property
    def lacks_by_deletion(self) -> bool:
        """Whether a key of P that the target lacks was deleted there, and has neither expired nor been left out."""
        return not (self.topic.is_expiring or self.left_out)

    def size(self, part: LogPart) -> int:
        """Return how many offsets a part has: P counts from source offset 0, D on the source, N on the target.

        D and N end with their last record: a group there has read them, even if the marker of a transaction follows.
        """
        if part is LogPart.SHARED:
            return self.source_next
        if part is LogPart.DIVERGED and self.diverged:
            return max(0, (self.diverged_end if self.diverged_end >= 0 else self.source.end) - self.split)
        if part is LogPart.NEW and self.new:
            return max(0, (self.new_end if self.new_end >= 0 else self.target.end) - self.target_next)
        return 0

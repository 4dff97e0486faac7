"""The rules of a drill: the names of what it makes, what it finds, and whether a consumer has read the right record.

made on the target                              | why nobody takes it for live data
------------------------------------------------+------------------------------------------------------------
groups `raymirror-drill-<run id>-<group>`       | no flow mirrors groups of this prefix, whatever `groups` says
topic `raymirror-drill-<run id>.internal`       | an internal name of raymirror: no flow copies it
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from policies.groups import DRILL_GROUPS
from policies.sync.client_quotas import PRODUCE_BYTES, ClientQuota
from policies.words import counted


def drill_prefix(run_id: str) -> str:
    """Return what the names of all groups of one drill begin with."""
    return f"{DRILL_GROUPS}{run_id}-"


def shadow_group(run_id: str, group: str) -> str:
    """Return the name under which a drill commits the translated offsets of a group."""
    return f"{drill_prefix(run_id)}{group}"


def scratch_topic(run_id: str) -> str:
    """Return the name of the topic that a drill produces to."""
    return f"{DRILL_GROUPS}{run_id}.internal"


# --- findings --------------------------------------------------------------------------------------------------------


class DrillFindingName(Enum):
    """What a drill has found; the names are stable."""

    NOT_DRAINED = "not-drained"
    NOT_TRANSLATED = "group-not-translated"
    GROUP_AHEAD = "group-ahead"
    GROUP_ACTIVE = "group-active"
    GROUP_FAILED = "group-failed"
    CHECKPOINT = "checkpoint-wrong"
    WRONG_RECORD = "wrong-record"
    NO_RECORD = "no-record"
    CONSUMER = "consumer-failed"
    NO_LEADER = "no-leader"
    IN_SYNC = "too-few-in-sync"
    QUOTA = "smaller-quota"
    PRODUCE = "cannot-produce"
    UNREADY = "applications-would-miss"
    NOT_JUDGED = "not-judged"


class DrillFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about a subject: a group, a partition, a principal. `hurts`: it would have hurt in a failover."""

    name: DrillFindingName
    subject: str
    why: str
    hurts: bool = True


def not_judged(subject: str, why: str) -> DrillFinding:
    """Return a finding about something that could not be checked: it fails no drill, but it is shown."""
    return DrillFinding(name=DrillFindingName.NOT_JUDGED, subject=subject, why=why, hurts=False)


# --- records ---------------------------------------------------------------------------------------------------------


class SeenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as a consumer sees it, without its offset. `digest`: BLAKE2b of its value; None: it has no value.

    `timestamp_ms`: -1 if it says nothing, because the broker has set it (`message.timestamp.type=LogAppendTime`).
    """

    key: bytes | None
    digest: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    def difference(self, other: "SeenRecord") -> str:
        """Name the parts in which two records differ; empty if they are the same record."""
        parts = [
            name
            for name, here, there in (
                ("key", self.key, other.key),
                ("value", self.digest, other.digest),
                ("headers", self.headers, other.headers),
            )
            if here != there
        ]
        if -1 not in (self.timestamp_ms, other.timestamp_ms) and self.timestamp_ms != other.timestamp_ms:
            parts.append("timestamp")
        return ", ".join(parts)


class ReadBack(msgspec.Struct, frozen=True, kw_only=True):
    """What one partition of a shadow group has read; offsets are next offsets.

    `read`: the first record that the consumer got, None if it got none. `wanted`: the source's record at the group's
    offset or the first one after it, None if that is the end of the log. `source_start`: where the source's log begins.
    `later`: records behind `wanted`; `before`: records behind `read`: a compacted topic may lack either of the two.
    `is_cut`: one of the logs goes on behind them.
    `failed`: why nothing could be read.
    """

    group: str
    partition: str
    source_offset: int
    target_offset: int
    source_start: int = 0
    is_compacted: bool = False
    read: SeenRecord | None = None
    wanted: SeenRecord | None = None
    later: tuple[SeenRecord, ...] = ()
    before: tuple[SeenRecord, ...] = ()
    is_cut: bool = False
    failed: str = ""


def judge_read(one: ReadBack) -> DrillFinding | None:
    """Say what is wrong with what a consumer has read; None if it read exactly the next record, or the end."""
    subject = f"group {one.group}, {one.partition}"
    if one.failed:
        return DrillFinding(name=DrillFindingName.CONSUMER, subject=subject, why=one.failed)
    if one.source_offset < one.source_start:
        why = f"the source has deleted its next record ({one.source_offset}): its log begins at {one.source_start}"
        return not_judged(subject, why)
    where = f"offset {one.target_offset} on the target, {one.source_offset} on the source"
    if one.read is None and one.wanted is None:
        return None
    if one.read is None:
        return DrillFinding(
            name=DrillFindingName.NO_RECORD,
            subject=subject,
            why=f"it read nothing, and the source has a record: {where}",
        )
    if one.wanted is None:
        why = f"it read a record, and on the source the log ends there: {where}"
        return DrillFinding(name=DrillFindingName.WRONG_RECORD, subject=subject, why=why)
    differs = one.read.difference(one.wanted)
    if not differs or (one.is_compacted and _is_compaction(one)):
        return None
    if one.is_compacted and one.is_cut:
        return not_judged(subject, f"one log is compacted further than the records that are compared: {where}")
    why = f"it read another record than the source has there (another {differs}): {where}"
    return DrillFinding(name=DrillFindingName.WRONG_RECORD, subject=subject, why=why)


def _is_compaction(one: ReadBack) -> bool:
    """Whether the logs differ only because one of them was compacted further: each side's record, or a later one."""
    assert one.read is not None
    assert one.wanted is not None
    read, wanted = one.read, one.wanted
    return any(not read.difference(two) for two in one.later) or any(not wanted.difference(two) for two in one.before)


# --- checkpoints -----------------------------------------------------------------------------------------------------


def judge_checkpoint(
    group: str, partition: str, checkpoint: tuple[int, int], translated: int, *, repeats: int
) -> DrillFinding | None:
    """Say what is wrong with a checkpoint (source offset, target offset); `translated`: the exact target offset.

    One that is lower is right if no record lies between, for markers count as offsets (`repeats`: records there).
    """
    source, target = checkpoint
    if target == translated or (target < translated and not repeats):
        return None
    does = f"repeat at least {counted(repeats, 'record')}" if target < translated else "skip records"
    return DrillFinding(
        name=DrillFindingName.CHECKPOINT,
        subject=f"group {group}, {partition}",
        why=(
            f"its checkpoint says {target} for source offset {source}, and that is {translated}: without the source, a"
            f" failover would {does}"
        ),
    )


# --- quotas ----------------------------------------------------------------------------------------------------------


def smaller_quotas(source: Sequence[ClientQuota], target: Sequence[ClientQuota]) -> list[DrillFinding]:
    """Return where the target lets a user or client produce less than the source does."""
    here, there = _produce(source), _produce(target)
    found: list[DrillFinding] = []
    for entity, (name, limit) in sorted(there.items(), key=lambda row: row[1][0]):
        if limit < here.get(entity, ("", float("inf")))[1]:
            before = f"{here[entity][1]:,.0f}" if entity in here else "none"
            why = f"{PRODUCE_BYTES} is {limit:,.0f} on the target, and {before} on the source"
            found.append(DrillFinding(name=DrillFindingName.QUOTA, subject=name, why=why))
    return found


def _produce(quotas: Iterable[ClientQuota]) -> Mapping[frozenset[tuple[str, str | None]], tuple[str, float]]:
    return {
        frozenset(one.entity.items()): (one.name, one.limits[PRODUCE_BYTES])
        for one in quotas
        if PRODUCE_BYTES in one.limits
    }

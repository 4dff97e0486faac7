"""Compares the consumer groups of a flow on both clusters, all at once: a failover waits until they are equal.

A group is equal if its commit on the target is exactly the translation of its source offset. If the source does not
answer, its groups are judged by their last checkpoints; later commits are not known.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal
from engine.core.offset_map.offset_map import How
from engine.flow.groups.expiry import skipping
from engine.flow.groups.translations import TranslatedOffset, Translations, with_reason
from engine.flow.lane.bisection import log_spans
from engine.flow.ports.ports import Cluster, GroupListing, Groups, Offsets, Stored
from engine.flow.topic_logs.checkpoints import CheckpointLog
from policies.groups import GroupSelection, GroupState, OwnCommit, Why, WrittenCheckpoint, unsupported, wanted
from policies.model import TopicPartition
from policies.words import some_of

LAST_CHECKPOINT = "known only from its last checkpoint: the source does not answer, so later commits are not known"
NOT_COMMITTED = "not committed on the target"
"""Why a group is not equal that a failover can make equal."""
READ_ON = "it reads on the source, and the target was given a newer offset while both were compared"
"""Why a group is not equal that the next look finds equal: the mirror commits, too."""
PASSING = frozenset({NOT_COMMITTED, READ_ON})
"""What passes by itself, or by a commit."""
BEFORE_MAP = "its offset is before the flow's offset map, which begins where the flow began to copy"
"""Why a group is not equal that nothing makes equal until it consumes further."""
EXPIRED = "the target's retention has deleted records that the group has not read, and the source has them"
"""Why a group is not equal that is at the start of the target's log: it would skip those records there."""
FOR_GOOD = frozenset({Why.TARGET_AHEAD.value, EXPIRED, BEFORE_MAP})
"""What no wait makes equal: who is ahead stays so, what was deleted stays deleted, and no map begins earlier."""
Commit = Callable[[Mapping[str, Sequence[TranslatedOffset]]], Awaitable[dict[str, str]]]
Spans = Mapping[TopicPartition, tuple[int, int]]
"""Log start and high watermark of the target's partitions, as far as their leaders answered."""
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)


class GroupPartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a group; an offset is -1 if there is none; `why` says why it is not equal.

    `as_of_ms`: when its checkpoint was written (Unix ms), if the row is judged by it; -1 if the source was asked. The
    source offset is the checkpoint's then: that of the group, or the end of the copy if the group was further.
    """

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    stored: int
    why: str = ""
    as_of_ms: int = -1

    @property
    def is_for_good(self) -> bool:
        """Whether it is not equal, and no wait makes it equal."""
        return self.why in FOR_GOOD


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All groups at one moment; `failed`: groups that could not be read or committed for, and why.

    `missing`: brokers of the source, and partitions of its commits, whose groups are not known, and why.
    """

    groups: int
    stands: tuple[GroupPartitionStatus, ...]
    failed: dict[str, str] = {}
    not_synced: dict[str, str] = {}
    missing: dict[str, str] = {}

    @property
    def unequal(self) -> tuple[GroupPartitionStatus, ...]:
        """The partitions that are not equal."""
        return tuple(stand for stand in self.stands if stand.why)

    @property
    def equal(self) -> bool:
        """Whether every group that can be mirrored is on the target exactly where it is on the source."""
        return not self.failed and not self.unequal and not self.missing

    def waited_for(self, undrained: Collection[TopicPartition]) -> dict[str, str]:
        """Return the groups that waiting may make equal, and brokers that may yet name theirs, each with its reason.

        Waiting is in vain for what is not equal for good, and for a group that lacks an offset in a partition that is
        not drained.
        """
        hopeful = (
            one
            for one in self.unequal
            if not one.is_for_good and not (one.target_offset < 0 and _lane(one) in undrained)
        )
        return first_reasons(hopeful) | self.failed | self.missing

    def held_against(self, undrained: Mapping[TopicPartition, str]) -> "GroupStatus":
        """Return the status with undrained partitions as not equal: a consumer would miss records there."""
        return msgspec.structs.replace(
            self,
            stands=tuple(
                msgspec.structs.replace(one, why=f"its partition is not drained: {undrained[_lane(one)]}")
                if not one.why and _lane(one) in undrained
                else one
                for one in self.stands
            ),
        )

    def completed(self, others: "GroupStatus") -> "GroupStatus":
        """Add the groups of another status; for a group in both, this status counts."""
        known = {one.group for one in self.stands}
        more = tuple(one for one in others.stands if one.group not in known)
        return msgspec.structs.replace(
            self,
            groups=self.groups + len({one.group for one in more}),
            stands=self.stands + more,
            failed=others.failed | self.failed,
        )


def first_reasons(rows: Iterable[GroupPartitionStatus]) -> dict[str, str]:
    """Return the first reason of each group."""
    return {one.group: f"{one.topic}-{one.partition}: {one.why}" for one in reversed(tuple(rows))}


def waiting_text(why: Mapping[str, str], left_s: float) -> str:
    """Say for which groups somebody waits, each with its reason, and for how many seconds at most."""
    return f"waits for groups, {max(0.0, left_s):.0f} s at most: {some_of(why)}"


def _lane(stand: GroupPartitionStatus) -> TopicPartition:
    return TopicPartition(stand.topic, stand.partition)


class GroupStatusReader:
    """Compares the groups of a source that answers; `commit` commits translated offsets (None: nothing is written).

    `log`: the source cluster.
    """

    def __init__(
        self,
        selection: GroupSelection,
        log: Cluster,
        source: Groups,
        target: Groups,
        translations: Translations,
        commit: Commit | None,
    ) -> None:
        self._selection, self._log = selection, log
        self._source, self._target = source, target
        self._translations = translations
        self._commit = commit
        self.answered: frozenset[str] = frozenset()
        self.unanswered: frozenset[str] = frozenset()
        """The groups whose commits the source returned at the last `look` (`answered`), and the groups that failed."""

    async def read(self) -> GroupStatus:
        """Read, commit if `commit` is set, and compare. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
        groups, left, unheard = await selected(self._source, self._selection)
        before = (await self._target.offsets(groups)).found  # who is ahead of the source was so before it is asked
        commits = await self._source.offsets(groups, stable=True)
        self.answered, self.unanswered = frozenset(commits.found), frozenset(commits.failed)
        places = await self._translations.places(commits.found)
        failed = unheard | commits.failed
        if self._commit is not None:
            failed |= await self._commit(places)
        names = [group for group, rows in places.items() if rows]
        states, stored = await self._target.states(names), await self._target.offsets(names)
        failed |= states.failed | stored.failed
        expired, why = await skipping(self._log, self._translations, places), self._translations.without_stints
        stands = [
            _stand(
                group,
                place._replace(how=with_reason(place.how, why)),
                stored.found[group],
                before.get(group, {}),
                states.found[group],
                expired=(group, place.lane) in expired,
            )
            for group in names
            if group in stored.found and group in states.found
            for place in places[group]
        ]
        return GroupStatus(groups=len(names), stands=tuple(stands), failed=failed, not_synced=left)


def sort_out(listings: Iterable[GroupListing], selection: GroupSelection) -> tuple[list[str], dict[str, str]]:
    """Return the groups of a flow among those that a cluster lists, and those that cannot be mirrored, with why."""
    groups: list[str] = []
    left: dict[str, str] = {}
    for listing in listings:
        if not selection.wants(listing.group):
            continue
        why = unsupported(listing.protocol_type, listing.kind)
        if why is None:
            groups.append(listing.group)
        else:
            left[listing.group] = why
    return groups, left


async def selected(cluster: Groups, selection: GroupSelection) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return the groups of a flow on a cluster, the groups that cannot be mirrored and why, and the silent brokers.

    The last has one entry for each broker that listed no groups: the groups that it coordinates are not known.
    """
    listed = await cluster.list_groups()
    groups, left = sort_out(listed.groups, selection)
    unheard = {f"all groups that broker {node} coordinates": why for node, why in listed.unheard.items()}
    return groups, left, unheard


def _stand(
    group: str, place: TranslatedOffset, there: Offsets, before: Offsets, state: GroupState, *, expired: bool
) -> GroupPartitionStatus:
    """Compare; `there`: the group's commits on the target, `before`: those of before the source was asked."""
    stored = _offset(there, place.target)
    why = _why(place.offset, place.how, stored, state, was_ahead=_offset(before, place.target) > place.offset)
    return GroupPartitionStatus(
        group=group,
        topic=place.lane.topic,
        partition=place.lane.partition,
        source_offset=place.source_offset,
        target_offset=place.offset,
        stored=stored,
        why=EXPIRED if expired and why in ("", NOT_COMMITTED) else why,
    )


def _offset(there: Offsets, where: TopicPartition) -> int:
    return there[where][0] if where in there else -1


def _why(target: int, how: str, stored: int, state: GroupState, *, was_ahead: bool) -> str:
    if target < 0:
        return BEFORE_MAP if how == How.BEFORE.value else f"no target offset: {how}"
    if stored == target:
        return ""
    if state is GroupState.ACTIVE:
        return Why.ACTIVE.value
    if stored < target:
        return NOT_COMMITTED
    return Why.TARGET_AHEAD.value if was_ahead else READ_ON


async def stand_by_checkpoints(
    selection: GroupSelection,
    log: CheckpointLog,
    cluster: Cluster,
    target: Groups,
    *,
    commit: bool,
    of: Callable[[str], bool] = lambda _group: True,
) -> GroupStatus:
    """Judge the groups of a source that does not answer by their last checkpoints; no group is equal for certain.

    An offset above the end of the target's log, which may have lost records since, becomes that end; one below its
    start becomes that start. `of`: whether the source does not answer for a group. `cluster` and `target` are both the
    target cluster. Raises its ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    await log.read_stamped()
    written = {group: rows for group, rows in log.written.items() if of(group) and selection.wants(group)}
    spans = await log_spans(cluster, {where for rows in written.values() for where in rows})
    states, stored = await target.states(list(written)), await target.offsets(list(written))
    failed = states.failed | stored.failed
    free = [group for group, state in states.found.items() if state is not GroupState.ACTIVE and group in stored.found]
    for group in free if commit else []:
        why = await _commit_checkpoints(target, group, written[group], spans, stored.found[group])
        if why:
            failed[group] = why
    there = await target.offsets(list(written))
    failed |= there.failed
    stands = [
        _last(group, where, one, spans, there.found[group], states.found[group], log.stamps.get((group, where), -1))
        for group, rows in written.items()
        if group in there.found and group in states.found
        for where, one in sorted(rows.items())
    ]
    return GroupStatus(groups=len(written), stands=tuple(stands), failed=failed)


async def _commit_checkpoints(
    target: Groups, group: str, written: Mapping[TopicPartition, WrittenCheckpoint], spans: Spans, there: Offsets
) -> str:
    rows: dict[TopicPartition, Stored] = {}
    for where, one in written.items():
        stored, at = there[where][0] if where in there else None, one.within(spans.get(where)).target
        ours = OwnCommit(one.source, one.target)  # a checkpoint was committed too, so only that commit may be lowered
        if wanted(stored, one.source, at, ours, age_s=0.0, renew_after_s=float("inf")).commits:
            rows[where] = at, one.metadata
    if not rows:
        return ""
    try:
        refused = await target.commit(group, rows)
    except GroupActive:
        return Why.ACTIVE.value
    except _FAILURES as failure:
        return str(failure)
    return "; ".join(f"commit of {where}: {why}" for where, why in list(refused.items())[:3])


def _last(
    group: str,
    where: TopicPartition,
    written: WrittenCheckpoint,
    spans: Spans,
    there: Offsets,
    state: GroupState,
    at_ms: int,
) -> GroupPartitionStatus:
    stored, at = _offset(there, where), written.within(spans.get(where)).target
    moved = ""
    if at != written.target:
        start, end = spans[where]
        moved = f"; the checkpoint says {written.target}, but the target's log is now from {start} to {end}"
    return GroupPartitionStatus(
        group=group,
        topic=where.topic,
        partition=where.partition,
        source_offset=written.source,
        target_offset=at,
        stored=stored,
        why=_why(at, "", stored, state, was_ahead=stored > at) or f"{LAST_CHECKPOINT}{moved}",
        as_of_ms=at_ms,
    )

"""Puts together what a failover would lose now and what a failback could do: by topic, partition and group."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from engine.flow.groups.failback import FailbackRow
from engine.flow.groups.status import PASSING, GroupPartitionStatus, GroupStatus
from engine.flow.surveys.readiness_survey import Readiness
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr.failback import FailbackChoice, FailbackPlan, plan_failback
from policies.dr.group_places import FailbackSide, GroupPlace, GroupProgress, group_place
from policies.model import TopicPartition


class TopicLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover would lose of one topic now: committed records that the target does not have.

    `bytes`: as the source stores them. `seconds`: the age of the oldest; 0.0: nothing is lost; -1.0: its time is not
    known. `torn`: transactions of which the target has a part. `is_exact`: false if a part was too large to read, and
    the numbers are projected, or was deleted before it was copied, and offsets are counted. `unknown`: partitions about
    which nothing is known, so the loss is at least what is counted. `left_out`: records that the target refused, which
    no copy has and which are in no other number; the quarantine topic of the target holds those that were not skipped.
    If the source does not answer, these numbers are not known: -1.
    """

    topic: str
    partitions: int
    records: int
    bytes: int
    seconds: float
    torn: int
    is_exact: bool
    unknown: int
    left_out: int = 0

    @property
    def is_known(self) -> bool:
        """Whether anything is known of the loss: the source answers."""
        return self.records >= 0

    @property
    def is_lossy(self) -> bool:
        """Whether the copies lack something, or may lack it."""
        return bool(self.records or self.unknown or self.left_out)


class PartitionFailback(msgspec.Struct, frozen=True, kw_only=True):
    """What a failback could do to one partition, by choice. Counts are records; -1: not known."""

    topic: str
    partition: int
    target_topic: str
    source_next: int
    target_next: int
    diverged: int
    new: int
    new_bytes: int
    is_exact: bool
    as_of_ms: int
    plans: tuple[FailbackPlan, ...]


class ChoicePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group goes with one choice, on each cluster."""

    choice: FailbackChoice
    source: GroupPlace
    target: GroupPlace


class GroupFailback(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a group: its commits on both clusters, and its places by each choice that is not refused."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    places: tuple[ChoicePlaces, ...]


class DrPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover would lose, and what a failback could do, at one moment.

    `source`: why the source does not answer; then the loss is not known, and neither what applications would miss nor a
    failback is judged. `unread`:
    partitions of the positions topic that could not be read, and why. `failed`: groups whose way back is not known.
    `failed_over_ms`: when a failover or a switchover stopped the flow (Unix ms); -1: it was not.
    """

    flow: str
    at_ms: int
    source: str
    losses: tuple[TopicLoss, ...]
    standing: GroupStatus
    readiness: Readiness = Readiness()
    partitions: tuple[PartitionFailback, ...] = ()
    groups: tuple[GroupFailback, ...] = ()
    failed: dict[str, str] = {}
    unread: dict[str, str] = {}
    failed_over_ms: int = -1

    @property
    def unequal(self) -> tuple[GroupPartitionStatus, ...]:
        """The partitions of groups that a failover would not make equal."""
        return tuple(one for one in self.standing.stands if one.why and one.why not in PASSING)

    @property
    def is_whole(self) -> bool:
        """Whether a failover would lose nothing, as far as everything is known."""
        known = not self.source and not self.unread
        return known and not any(one.is_lossy for one in self.losses)

    @property
    def is_equal(self) -> bool:
        """Whether a failover would place every group exactly where it is on the source."""
        return not (self.unequal or self.standing.failed or self.standing.missing)


def losses_of(found: Iterable[SurveyedPartition], at_ms: int) -> tuple[TopicLoss, ...]:
    """Sum up what would be lost, by topic; `at_ms`: now (Unix ms)."""
    topics: defaultdict[str, list[SurveyedPartition]] = defaultdict(list)
    for one in found:
        topics[one.separation.lane.source.topic].append(one)
    return tuple(_loss(topic, some, at_ms) for topic, some in sorted(topics.items()))


def _loss(topic: str, found: Sequence[SurveyedPartition], at_ms: int) -> TopicLoss:
    contents = [one.diverged for one in found if one.diverged is not None]
    expired = sum(map(_expired, found))
    records = sum(one.records for one in contents) + sum(map(_short_of, found)) + expired
    oldest = [one.oldest_ms for one in contents if one.records and one.oldest_ms >= 0]
    seconds = max(0.0, (at_ms - min(oldest)) / 1000) if oldest else -1.0
    return TopicLoss(
        topic=topic,
        partitions=len(found),
        records=records,
        bytes=sum(one.bytes for one in contents),
        seconds=seconds if records else 0.0,
        torn=sum(one.torn for one in contents),
        is_exact=all(one.is_whole for one in contents) and not expired,
        unknown=sum(not _is_loss_known(one) for one in found),
        left_out=sum(one.separation.left_out for one in found),
    )


def _is_loss_known(found: SurveyedPartition) -> bool:
    """Whether the source's log is known, and the copy too, if there should be one: a copy may have been deleted.

    Deletions of a compacted topic that were never copied leave no trace in the end.
    """
    one = found.separation
    return found.diverged is not None and not one.erased and (one.source_next < 0 or one.target.is_known)


def _expired(found: SurveyedPartition) -> int:
    """Return how many offsets the source's retention has deleted before they were copied."""
    one = found.separation
    return max(0, one.source.start - one.source_next) if one.source_next >= 0 else 0


def _short_of(found: SurveyedPartition) -> int:
    """Return how many copied records the target has lost, in offsets."""
    one = found.separation
    return max(0, one.target_next - one.target.end) if one.target.is_known else 0


def unknown_losses(lanes: Iterable[KnownLane]) -> tuple[TopicLoss, ...]:
    """Name the topics whose loss is not known, because the source does not answer."""
    counts: defaultdict[str, int] = defaultdict(int)
    for one in lanes:
        counts[one.lane.topic] += 1
    return tuple(
        TopicLoss(
            topic=topic,
            partitions=count,
            records=-1,
            bytes=-1,
            seconds=-1.0,
            torn=-1,
            is_exact=False,
            unknown=count,
            left_out=-1,
        )
        for topic, count in sorted(counts.items())
    )


def partition_failbacks(found: Iterable[SurveyedPartition]) -> tuple[PartitionFailback, ...]:
    """Plan every choice for every partition."""
    return tuple(
        PartitionFailback(
            topic=one.separation.lane.source.topic,
            partition=one.separation.lane.source.partition,
            target_topic=one.separation.lane.target.topic,
            source_next=one.separation.source_next,
            target_next=one.separation.target_next,
            diverged=-1 if one.diverged is None else one.separation.diverged,
            new=one.separation.new,
            new_bytes=one.new.bytes,
            is_exact=one.is_counted,
            as_of_ms=one.as_of_ms,
            plans=tuple(plan_failback(one.separation, choice) for choice in FailbackChoice),
        )
        for one in found
    )


def group_failbacks(rows: Iterable[FailbackRow], found: Iterable[SurveyedPartition]) -> tuple[GroupFailback, ...]:
    """Place every group of the target in every partition that it has committed, by each choice that is not refused."""
    lanes = {one.separation.lane.source: one.separation for one in found}
    placed: list[GroupFailback] = []
    for row in rows:
        separation = lanes.get(TopicPartition(row.topic, row.partition))
        if separation is None:
            continue
        progress = GroupProgress(source=row.stored, target=row.target_offset, mapped=row.source_offset)
        plans = (plan_failback(separation, choice) for choice in FailbackChoice)
        places = tuple(
            ChoicePlaces(
                choice=plan.choice,
                source=group_place(separation, plan, progress, FailbackSide.SOURCE),
                target=group_place(separation, plan, progress, FailbackSide.TARGET),
            )
            for plan in plans
            if not plan.refused
        )
        placed.append(
            GroupFailback(
                group=row.group,
                topic=row.topic,
                partition=row.partition,
                source_offset=row.stored,
                target_offset=row.target_offset,
                places=places,
            )
        )
    return tuple(placed)

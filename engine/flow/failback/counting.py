"""Counts what each cluster has alone, by the exact ends of the copies, and finds every reason against a failback."""

from collections.abc import Mapping, Sequence

import msgspec

from engine.flow.failback.errors import FailbackReason
from engine.flow.failback.rows import LaneRow
from engine.flow.failback.settling import CopyEnd, settle
from engine.flow.failback.world import FailbackWorld
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.ports.ports import LATEST
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.surveys.separation_survey import BY_MM2, NOT_COPIED, SeparationSurvey, SurveyedPartition
from engine.flow.surveys.topic_traits import topic_traits
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr.failback import FailbackChoice, FailbackRefusal, certain, plan_failback
from policies.model import LaneName, TopicPartition
from policies.sync.config_sync import TopicState

KEYS, ANEW, NAMES, EXPORT = "keys-must-be-compared", "made-anew", "names-differ", "no-export"


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted. `left`: partitions that only the source has, which stay as they are."""

    found: tuple[SurveyedPartition, ...]
    reasons: tuple[FailbackReason, ...]
    left: tuple[TopicPartition, ...] = ()

    @property
    def rows(self) -> tuple[LaneRow, ...]:
        """The partitions as a failback stores them."""
        return tuple(_row(one) for one in self.found)


async def look_ahead(world: FailbackWorld, choice: FailbackChoice) -> tuple[FailbackReason, ...]:
    """Return the reasons that the last positions show for certain, before anything is written. Raises as `count`."""
    counted = await count(world, choice, exports=True, settles=False)
    sure = [msgspec.structs.replace(one, separation=certain(one.separation)) for one in counted.found]
    return tuple(reason for one in sure for reason in _reasons(world, one, choice, exports=True))


async def topics_of(world: FailbackWorld) -> dict[str, TopicState]:
    """Return the source topics of the flow, without heartbeats, which mirrors write."""
    selection = world.selection
    topics = await world.source.settings.topics(None)
    is_beats = selection.naming.is_heartbeats_topic
    return {topic: one for topic, one in topics.items() if selection.wants(topic) and not is_beats(topic)}


async def count(world: FailbackWorld, choice: FailbackChoice, *, exports: bool, settles: bool = True) -> Counted:
    """Write the barriers, read both clusters, and judge. `exports`: whether a folder was named for an export.

    `settles` false: write nothing, and count by the last positions, which may be behind. Raises ConnectionLost,
    BrokerUnreachable, KafkaRefusal.
    """
    topics, known = await topics_of(world), await world.known()
    lanes = world.selection.lanes({topic: one.partitions for topic, one in topics.items()})
    if settles:
        ends = await settle(world.forward_options(), world.source.cluster, world.target.cluster, lanes)
    else:
        ends = [_by_position(lane, known) for lane in lanes]
    left = await _left(world, ends)
    kept = [end for end in ends if end.lane.source not in left]
    found = await survey(world, topics, [_known(end, known) for end in kept])
    reasons = [reason for one in found for reason in _reasons(world, one, choice, exports=exports)]
    return Counted(found=tuple(found), reasons=tuple(reasons), left=tuple(sorted(left)))


def _by_position(lane: LaneName, known: Mapping[TopicPartition, KnownLane]) -> CopyEnd:
    one = known.get(lane.source)
    if one is None:
        return CopyEnd(lane=lane, why=NOT_COPIED)
    return CopyEnd(
        lane=lane,
        source_next=one.source_next,
        target_next=one.target_next,
        source_epoch=one.source_epoch,
        epoch_next=one.epoch_next,
        source_topic_id=one.source_topic_id,
        why=one.why or ("" if one.target_next >= 0 else BY_MM2),
    )


async def _left(world: FailbackWorld, ends: Sequence[CopyEnd]) -> set[TopicPartition]:
    """Return the partitions that were never copied and whose copy holds nothing: there is nothing to bring back."""
    never = [end.lane for end in ends if end.why == NOT_COPIED]
    led = await world.target.cluster.leaders([lane.target for lane in never]) if never else {}
    held = await offsets_by_leaders(world.target.cluster, led, LATEST)
    return {lane.source for lane in never if lane.target not in led or held.get(lane.target) == 0}


async def survey(
    world: FailbackWorld, topics: Mapping[str, TopicState], known: Sequence[KnownLane]
) -> list[SurveyedPartition]:
    """Survey lanes by their exact ends. Raises as `count` does."""
    traits = await topic_traits(
        world.source.settings, world.target.settings, topics, world.selection.target_topic, world.feeds
    )
    maps = world.forward_maps()
    lanes = [LaneName(one.lane, one.target) for one in known]
    target, forward = world.target.cluster, world.forward
    quarantine = QuarantineReader(target, forward.flow.source, is_used=forward.faults.leaves_out)
    surveyor = SeparationSurvey(world.source.cluster, target, maps, quarantine)
    return await surveyor.look(lanes, {one.lane: one for one in known}, traits)


def _known(end: CopyEnd, known: Mapping[TopicPartition, KnownLane]) -> KnownLane:
    before = known.get(end.lane.source)
    return KnownLane(
        lane=end.lane.source,
        target=end.lane.target,
        source_next=end.source_next,
        at_ms=before.at_ms if before is not None else -1,
        ours=not end.why,
        target_next=end.target_next,
        source_epoch=end.source_epoch,
        epoch_next=end.epoch_next,
        source_topic_id=end.source_topic_id,
        why=end.why,
    )


def _row(one: SurveyedPartition) -> LaneRow:
    found = one.separation
    return LaneRow(
        topic=found.lane.source.topic,
        partition=found.lane.source.partition,
        copy_topic=found.lane.target.topic,
        split=found.source_next,
        target_next=found.target_next,
        source_end=found.source.end,
        diverged=found.diverged,
        new=found.new,
    )


def _reasons(
    world: FailbackWorld, one: SurveyedPartition, choice: FailbackChoice, *, exports: bool
) -> list[FailbackReason]:
    found, where = one.separation, str(one.separation.lane.source)
    plan = plan_failback(found, choice)
    # what is not decided on the target yet is copied when it is
    refused = [one for one in plan.refused if one.name is not FailbackRefusal.TARGET_OPEN]
    reasons = [FailbackReason(one.name.value, where, one.why) for one in refused]
    copy = found.lane.target.topic
    back = world.back_selection
    if not back.wants(copy) or back.target_topic(copy) != found.lane.source.topic:
        why = (
            f"the reverse flow {back.flow} would copy {copy} to {back.target_topic(copy)}: a failback needs a"
            " replication policy that keeps names, because applications then write to the copy"
        )
        reasons.append(FailbackReason(NAMES, where, why))
    if plan.makes_anew:
        why = "this choice deletes the source topic and copies it whole, which this version leaves to the operator"
        reasons.append(FailbackReason(ANEW, where, why))
    elif plan.compares_keys:
        why = "the keys of a compacted topic must be compared first, which this version does not do"
        reasons.append(FailbackReason(KEYS, where, why))
    if found.diverged and not exports:
        why = f"only the source has {found.diverged} records: name a folder to export them to: --export DIR"
        reasons.append(FailbackReason(EXPORT, where, why))
    return reasons

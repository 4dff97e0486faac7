"""Counts what each cluster has alone, by the exact ends of the copies, and finds every reason against a failback."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from engine.flow.failback.errors import FailbackReason
from engine.flow.failback.keyed_copies import KEYS, first_keyless
from engine.flow.failback.rows import LaneRow
from engine.flow.failback.settling import CopyEnd, settle
from engine.flow.failback.world import FailbackWorld
from engine.flow.groups.status import selected
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.ports.ports import LATEST, Groups, Offsets
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.surveys.log_sizes import bytes_from, records_in
from engine.flow.surveys.separation_survey import BY_MM2, NOT_COPIED, SeparationSurvey, SurveyedPartition
from engine.flow.surveys.topic_traits import topic_traits
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr import advice
from policies.dr.failback import FailbackChoice, FailbackRefusal, certain, makes_anew, plan_failback
from policies.groups import GroupSelection
from policies.model import LaneName, TopicPartition
from policies.sync.config_sync import TopicState

MADE_ANEW, NAMES, EXPORT = "made-anew", "names-differ", "no-export"
NEVER_COPIED, GROUP_UNREAD = "never-copied", "group-not-read"


class FailbackWish(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator asks for. `exports`: a folder was named for an export. `confirms`: topics may be deleted."""

    choice: FailbackChoice
    exports: bool
    confirms: bool = False


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted. `left`: partitions that only the source has, which stay as they are.

    `anew`: the source topics that must be made anew, with about how many bytes the target has of each.
    """

    found: tuple[SurveyedPartition, ...]
    reasons: tuple[FailbackReason, ...]
    left: tuple[TopicPartition, ...] = ()
    anew: dict[str, int] = {}

    @property
    def rows(self) -> tuple[LaneRow, ...]:
        """The partitions as a failback stores them."""
        return tuple(_row(one, anew=one.separation.lane.source.topic in self.anew) for one in self.found)


async def look_ahead(world: FailbackWorld, asked: FailbackWish) -> tuple[FailbackReason, ...]:
    """Return the reasons that the last positions show for certain, before anything is written. Raises as `count`."""
    every = msgspec.structs.replace(asked, exports=True)
    counted = await count(world, every, settles=False)
    sure = [msgspec.structs.replace(one, separation=certain(one.separation)) for one in counted.found]
    anew = {topic: counted.anew[topic] for topic in topics_anew(sure, asked.choice)}
    return (
        *_name_reasons(world, sorted({one.separation.lane.source.topic for one in sure})),
        *_topic_reasons(sure, anew, every),
        *(reason for one in sure for reason in _reasons(one, every, anew)),
    )


async def topics_of(world: FailbackWorld) -> dict[str, TopicState]:
    """Return the source topics of the flow, without heartbeats, which mirrors write."""
    selection = world.selection
    topics = await world.source.settings.topics(None)
    is_beats = selection.naming.is_heartbeats_topic
    return {topic: one for topic, one in topics.items() if selection.wants(topic) and not is_beats(topic)}


def topics_anew(found: Sequence[SurveyedPartition], choice: FailbackChoice) -> frozenset[str]:
    """Return the source topics of which a choice makes a partition anew, and so all of them."""
    judged = [one.separation for one in found if not one.separation.unknown]
    return frozenset(one.lane.source.topic for one in judged if makes_anew(one, choice))


async def count(world: FailbackWorld, asked: FailbackWish, *, settles: bool = True) -> Counted:
    """Write the barriers, read both clusters, and judge.

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
    between = {end.lane.source: end.between for end in kept}
    found = [
        msgspec.structs.replace(
            one, separation=msgspec.structs.replace(one.separation, between=between[one.separation.lane.source])
        )
        for one in await survey(world, topics, [_known(end, known) for end in kept])
    ]
    anew = await _sizes(world, topics_anew(found, asked.choice))
    names = _name_reasons(world, sorted({lane.source.topic for lane in lanes}))
    unread = (await commits_on(world.source.groups, world.groups))[1] if anew else []
    reasons = [
        *_topic_reasons(found, anew, asked),
        *await _key_reasons(world, found, asked, anew),
        *names,
        *unread,
        *await left_reasons(world, [lane for lane in left if lane.topic in anew]),
        *(reason for one in found for reason in _reasons(one, asked, anew)),
    ]
    return Counted(found=tuple(found), reasons=tuple(reasons), left=tuple(sorted(left)), anew=anew)


async def _sizes(world: FailbackWorld, topics: Collection[str]) -> dict[str, int]:
    """Return about how many bytes the copies of source topics hold."""
    copies = {topic: world.selection.target_topic(topic) for topic in sorted(topics)}
    there = await world.target.settings.topics(sorted(copies.values()))
    found: dict[str, int] = {}
    for topic, copy in copies.items():
        partitions = there[copy].partitions if copy in there else 0
        firsts = {TopicPartition(copy, number): -1 for number in range(partitions)}
        found[topic] = await bytes_from(world.target.cluster, firsts)
    return found


async def commits_on(source: Groups, selection: GroupSelection) -> tuple[dict[str, Offsets], list[FailbackReason]]:
    """Return the commits of groups on the source, which go with deleted topics, and the groups that cannot be read.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    groups, _, unheard = await selected(source, selection)
    answers = await source.offsets(groups, stable=True)
    unread = [
        FailbackReason(GROUP_UNREAD, group, f"its commits on the source go with the topic, and cannot be read: {why}")
        for group, why in sorted((unheard | answers.failed).items())
    ]
    return answers.found, unread


async def left_reasons(world: FailbackWorld, left: Sequence[TopicPartition]) -> list[FailbackReason]:
    """Refuse to delete records of partitions that were never copied."""
    why = "it was never copied, and its topic would be deleted with its records: copy it first, or discard it by hand"
    held = [lane for lane in sorted(left) if await records_in(world.source.cluster, lane)]
    return [FailbackReason(NEVER_COPIED, str(lane), why) for lane in held]


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
        target_topic_id=one.target_topic_id,
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
        target_topic_id=end.target_topic_id,
        why=end.why,
    )


def _row(one: SurveyedPartition, *, anew: bool) -> LaneRow:
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
        anew=anew,
        compacted=found.topic.is_compacted,
        buries=found.are_tombstones_gone and not anew,
        tombstones_until_ms=-1 if anew else found.tombstones_until_ms,
        lacks_by_deletion=found.lacks_by_deletion,
        lacking=found.are_tombstones_gone and not anew,
    )


def _name_reasons(world: FailbackWorld, topics: Sequence[str]) -> Iterator[FailbackReason]:
    """Refuse a flow whose copies have other names: applications write beside the copies, so nothing must go back."""
    forward, back = world.selection, world.back_selection
    source, target = world.forward.flow
    other = [
        topic
        for topic in topics
        if not back.wants(forward.target_topic(topic)) or back.target_topic(forward.target_topic(topic)) != topic
    ]
    if other:
        copy = forward.target_topic(other[0])
        again = advice.RESUME.given(str(forward.flow), advice.FORGET_FAILOVER.given())
        way = (
            f"the reverse flow {back.flow} does not copy {copy} to {other[0]}. Where copies have names of their own,"
            f" nothing is written to them, so no failback is needed: {target} gets what only {source} has by copying"
            f" {forward.flow} again ({again}), and {source} gets what {target} got by copying {back.flow};"
            " see docs/dr.md, The default policy"
        )
        yield FailbackReason(NAMES, str(forward.flow), way)


def _topic_reasons(
    found: Sequence[SurveyedPartition], anew: Mapping[str, int], asked: FailbackWish
) -> Iterator[FailbackReason]:
    """Refuse to make topics anew that nobody has confirmed, and say what each costs."""
    for topic, size in sorted(anew.items() if not asked.confirms else ()):
        plans = [
            plan_failback(one.separation, asked.choice, with_topic=True)
            for one in found
            if one.separation.lane.source.topic == topic
        ]
        gone = sum(max(0, plan.expired) for plan in plans)
        expired = (
            f"; {gone} of its offsets, whose copies the target's retention has deleted, are gone then" if gone else ""
        )
        if any(plan.expired < 0 for plan in plans):
            expired += "; what the target's retention has deleted of it is gone then, and how much that is is not known"
        doubted = [
            one.separation.lane.source for one in found if one.separation.lane.source.topic == topic and _is_other(one)
        ]
        if doubted:
            expired += (
                f"; it is not known whether {doubted[0]} still has the records that were copied: other ones in their"
                " place are neither counted nor exported, and gone then"
            )
        why = (
            f"{asked.choice.value} deletes this topic on the source, creates it again and copies all of its copy, about"
            f" {size} bytes; all its offsets begin anew, and groups are committed anew{expired}; confirm that with"
            f" {advice.MAKE_ANEW.given()}"
        )
        yield FailbackReason(MADE_ANEW, topic, why)


def _is_other(one: SurveyedPartition) -> bool:
    """Whether the source may have other records below the end of the copy, and nothing says from where on."""
    found = one.separation
    return not found.unknown and (found.is_epoch_unknown or (found.epoch_end < 0 and found.is_source_short))


async def _key_reasons(
    world: FailbackWorld, found: Sequence[SurveyedPartition], asked: FailbackWish, anew: Collection[str]
) -> list[FailbackReason]:
    """Refuse partitions of compacted topics whose D cannot be copied by its keys."""
    reasons: list[FailbackReason] = []
    for one in found:
        lane, judged = one.separation.lane.source, one.separation
        plan = plan_failback(judged, asked.choice, with_topic=lane.topic in anew)
        if not (plan.compares_keys and judged.diverged):
            continue
        why = _why_not_by_keys(one)
        span = max(judged.source_next, judged.source.start), judged.source.end
        if not why and (at := await first_keyless(world.source.cluster, lane, *span)) is not None:
            why = f"the record at offset {at} has no key, so it cannot be compared"
        if why:
            reasons.append(FailbackReason(KEYS, str(lane), why))
    return reasons


def _why_not_by_keys(one: SurveyedPartition) -> str:
    """Say why D of a compacted topic cannot be copied by its keys; empty if it can."""
    if one.separation.is_new_expired:
        return "the target's retention has deleted new records, so it is not known whether their keys were newer"
    if one.diverged is None or not one.diverged.is_whole:
        return (
            "only the source has more than 16 MiB of it, which is too much for the one transaction that keys are"
            " compared for; discard needs no comparison"
        )
    return ""


def _reasons(one: SurveyedPartition, asked: FailbackWish, anew: Collection[str]) -> list[FailbackReason]:
    found, where = one.separation, str(one.separation.lane.source)
    plan = plan_failback(found, asked.choice, with_topic=found.lane.source.topic in anew)
    # what is not decided on the target yet is copied when it is
    refused = [one for one in plan.refused if one.name is not FailbackRefusal.TARGET_OPEN]
    reasons = [FailbackReason(one.name.value, where, one.why) for one in refused]
    if found.diverged and not asked.exports:
        folder = f"name a folder to export them to: {advice.EXPORT.given('DIR')}"
        why = f"only the source has {found.diverged} records: {folder}"
        reasons.append(FailbackReason(EXPORT, where, why))
    return reasons

"""The steps that move the producers of topics to the target: what differs from a switchover of the whole flow.

The flow goes on copying its other topics. So nothing is paused until the target has every record of these topics, and
their producers are about to write there.
"""

from collections.abc import Mapping

import msgspec

from engine.base.clock import wall_ms
from engine.flow.operations.driver import Facts, Step, StepRun
from engine.flow.operations.fencing import Fence, take_back
from engine.flow.operations.store import OperationStore
from engine.services.dr.moves.hook import MoveHook, MovePhase
from engine.services.dr.moves.survey import WATCH_S, MoveSurvey
from engine.services.dr.other_fences import COMMAND_NOTES, CalledCommand
from engine.services.dr.preview import fed_too
from engine.services.dr.switchover.build import SwitchoverChoices, choices_of
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.group_starts import ReadingGroups, start_groups
from engine.services.dr.switchover.reversal import WatchStep
from engine.services.dr.switchover.steps import (
    DRAINED_NOTES,
    CheckFailed,
    DrainStep,
    FenceStep,
    SettleStep,
    SwitchoverLimits,
    paused_by_hand,
    records_in_the_way,
)
from engine.services.dr.switchover.world import DrainedEnd, SwitchoverWorld
from engine.state.state import MovedTopic
from policies.dr.advice import MOVE_LIST
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operations import Fact, has_standing_fence
from policies.dr.topic_moves import groups_in_the_way, topics_in_the_way
from policies.model import TopicPartition

Reasons = tuple[tuple[str, str], ...]
"""What is in the way: names and sentences."""


class MoveChoices(SwitchoverChoices, frozen=True, kw_only=True):
    """What the operator has chosen. `topics`: of the source; `left`: groups that stay behind."""

    topics: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def facts(self) -> dict[str, Fact]:
        """Return the choices as an operation stores them; names of topics have no blanks, those of groups may."""
        return super().facts() | {"topics": " ".join(self.topics), "left": "\n".join(self.left)}


def move_choices_of(facts: Mapping[str, Fact]) -> MoveChoices:
    """Return the choices that an operation has stored."""
    common = {name: getattr(choices_of(facts), name) for name in SwitchoverChoices.__struct_fields__}
    left = tuple(filter(None, str(facts["left"]).split("\n")))
    return MoveChoices(**common, topics=tuple(str(facts["topics"]).split()), left=left)


class MoveCheckStep:
    """Checks that the producers may move. It changes nothing, so a dry run is this step alone."""

    def __init__(
        self, survey: MoveSurvey, world: SwitchoverWorld, fence: Fence, control: FlowControl, choices: MoveChoices
    ) -> None:
        self._survey, self._world, self._fence = survey, world, fence
        self._control, self._choices = control, choices

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises CheckFailed, FenceRefused."""
        del run
        reasons, facts = await self.look()
        if left := self.refused(reasons):
            raise CheckFailed(left)
        return facts

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}

    def refused(self, reasons: Reasons) -> Reasons:
        """Return the reasons that the operator does not accept."""
        return tuple(one for one in reasons if one[0] not in self._choices.ignore)

    async def look(self, watch_s: float = WATCH_S) -> tuple[Reasons, Facts]:
        """Return what is in the way, and the facts; `watch_s`: between two looks at commits.

        Raises FenceRefused, BrokerUnreachable, KafkaRefusal.
        """
        world, topics, found = self._world, self._choices.topics, list[tuple[str, str]]()
        facts = await self._fence.refuse(topics)
        if not await self._control.is_copying():
            found.append(("no-mirror", "no mirror copies the flow, so the target cannot catch up"))
        already = sorted((await self._survey.log.read()).topics.keys() & set(topics))
        found += [("already-moved", f"producers of {name} have moved: {MOVE_LIST.given()}") for name in already]
        paused = set(await world.paused_topics()) & set(topics)
        found += [("topic-paused", paused_by_hand(name)) for name in sorted(paused)]
        known = await world.stored()
        bad = {str(one.lane): one.why for one in known.lanes if one.source_next < 0 and one.lane.topic in topics}
        found += [("copies-not-whole", f"{subject}: {why}") for subject, why in (bad | dict(known.unread)).items()]
        found += await records_in_the_way(world, self._control, topics)
        found += topics_in_the_way({name: fed_too(world.config, world.flow, name) for name in topics})
        ready = await world.readiness()
        found += [(one.name.value, f"{one.subject}: {one.why}") for one in ready.unready]
        found += [("readiness-unknown", text) for text in ready.unknown]
        found += await self.groups(watch_s)
        return tuple(found), {**facts, "topics": len(topics)}

    async def groups(self, watch_s: float) -> Reasons:
        """Return why consumers keep the producers from moving. Raises BrokerUnreachable, ConnectionLost."""
        found = await self._survey.groups(self._choices.topics, await self._survey.log.read(), watch_s)
        unread = tuple(("group-not-read", f"{subject}: {why}") for subject, why in found.failed.items())
        return (*unread, *groups_in_the_way(found.groups, self._choices.left))


class MoveGroupsStep:
    """Looks again for groups that have not moved; if copies have a prefix, commits where groups start.

    A group with members commits by itself: it already reads the topics that producers will write to.
    """

    def __init__(self, survey: MoveSurvey, world: SwitchoverWorld, check: MoveCheckStep, choices: MoveChoices) -> None:
        self._survey, self._world, self._check, self._choices = survey, world, check, choices

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises CheckFailed, BrokerUnreachable, ConnectionLost, KafkaRefusal."""
        if left := self._check.refused(await self._check.groups(0.0)):
            raise CheckFailed(left)
        if self._world.keeps_names:
            return {}
        moves = await self._survey.log.read()
        found = await self._survey.groups(self._choices.topics, moves, 0.0)
        read = {one.group: one.topics for one in found.groups if one.is_mirrored or one.move}
        return await start_groups(run, self._world, ReadingGroups(read, found.failed), moves.topics)

    async def undo(self, run: StepRun) -> Facts:
        """See Step: a start offset where there was none does no harm."""
        del run
        return {}


class GoesOn:
    """Pauses nothing: the flow goes on copying its other topics."""

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}


STARTS_NOTES = "producer-starts"


class ProducerStarts(msgspec.Struct, frozen=True):
    """Where producers begin in a topic of the target, by the numbers of its partitions."""

    topic: str
    starts: tuple[int, ...]


class HandOverStep:
    """Opens the target to the producers, and stores that they have moved.

    If copies keep their names, the flow must not append to them any more: their topics are paused.
    """

    def __init__(
        self,
        survey: MoveSurvey,
        world: SwitchoverWorld,
        store: OperationStore,
        control: FlowControl,
        choices: MoveChoices,
    ) -> None:
        self._survey, self._world, self._store = survey, world, store
        self._control, self._topics = control, choices.topics
        self._hook = MoveHook(world.config, world.flow)

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed, HookFailed, MirrorError if the mirror does not pause the topics."""
        lifted, others = await self._lift(run)
        if self._world.keeps_names:
            run.assure()
            await self._control.pause_moved(self._topics)
        ends = run.notes(DRAINED_NOTES, DrainedEnd) or ()
        at_ms, operation = wall_ms(), run.operation
        starts = {} if self._world.keeps_names else await self._starts(run)
        known = (await self._survey.log.read()).topics
        moved = {
            name: MovedTopic(
                at_ms=at_ms,
                who=operation.who,
                operation=operation.id,
                ends=ends_of(name, ends),
                starts=starts.get(name, ()),
            )
            for name in self._topics
            if name not in known  # after a kill, or an earlier move: producers may write already
        }
        await self._hook.call(MovePhase.AFTER, self._topics)
        run.assure()
        await self._survey.log.put_topics(moved)
        return {"topics": len(self._topics), "lifted_bindings": lifted, "other_fences": others}

    async def _starts(self, run: StepRun) -> dict[str, tuple[int, ...]]:
        """Return where the topics ended that producers will write to, before anybody was told that they may.

        That is stored first: after a kill producers may write already, and groups that move later start there. A topic
        that is not there yet begins with what producers write.
        """
        known = run.notes(STARTS_NOTES, ProducerStarts)
        if known is None:
            there = await self._world.target_settings.topics(list(self._topics))
            counts = {name: state.partitions for name, state in there.items()}
            lanes = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
            ends = await self._world.copy_ends(lanes) if lanes else {}
            drained = run.notes(DRAINED_NOTES, DrainedEnd) or ()
            starts = {name: (0,) * len(ends_of(name, drained)) for name in self._topics}
            for name, count in counts.items():
                starts[name] = tuple(ends[TopicPartition(name, number)] for number in range(count))
            known = tuple(ProducerStarts(name, at) for name, at in sorted(starts.items()))
            await run.keep(STARTS_NOTES, known)
        return {one.topic: one.starts for one in known}

    async def _lift(self, run: StepRun) -> tuple[int, str]:
        """Take away what earlier fences keep producers from these topics of the target with.

        A fence that a command has made is named instead: the command opens all of its topics, or none.
        """
        lifted, others = 0, list[str]()
        for one in self._store.operations:
            if not (one.has_ended and one.source == self._world.flow.name.target and has_standing_fence(one)):
                continue
            if self._store.notes(one, COMMAND_NOTES, CalledCommand):
                others.append(one.id)
            rows = self._store.notes(one, FENCE_NOTES, FenceRow) or ()
            mine = [row.binding for row in rows if row.binding.name in self._topics]
            if mine:
                run.assure()
                lifted += await take_back(run, self._world.target_settings, mine)
        return lifted, " ".join(others)

    async def undo(self, run: StepRun) -> Facts:
        """See Step: it is the point of no return."""
        del run
        return {}


def ends_of(topic: str, ends: tuple[DrainedEnd, ...]) -> tuple[int, ...]:
    """Return where the partitions of a topic end, by number."""
    found = {one.partition: one.end for one in ends if one.topic == topic}
    return tuple(found.get(number, 0) for number in range(max(found, default=-1) + 1))


def move_steps(
    world: SwitchoverWorld, store: OperationStore, control: FlowControl, fence: Fence, choices: MoveChoices
) -> dict[str, Step]:
    """Return the steps by their names in the table; `world` is connected if both clusters answer."""
    about, survey = world.about(choices.topics), MoveSurvey(world)
    check = MoveCheckStep(survey, about, fence, control, choices)
    drain = DrainStep(about, control, SwitchoverLimits(drain_s=choices.timeout_s), frozenset(choices.ignore))
    groups = MoveGroupsStep(survey, about, check, choices)
    return {
        "check": check,
        "fence": FenceStep(about, fence),
        "drain": drain,
        "groups": groups,
        "settle": SettleStep(about, GoesOn(), drain, (groups,)),
        "hand-over": HandOverStep(survey, about, store, control, choices),
        "watch": WatchStep(about),
    }

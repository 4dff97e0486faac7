"""The steps that let the producers of topics write to the source again, after their move, before they use the target.

A move pauses topics for good if copies keep their names, because two writers would mix the copies. So nothing may lie
behind what the flow has copied when it copies them again.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from engine.flow.operations.driver import Facts, Step, StepRun
from engine.flow.operations.fencing import take_back
from engine.flow.operations.store import OperationStore
from engine.flow.ports.ports import EARLIEST
from engine.services.dr.move_log import start_of
from engine.services.dr.moves.hook import MoveHook, MovePhase
from engine.services.dr.moves.steps import MoveChoices, Reasons, move_choices_of
from engine.services.dr.moves.survey import MoveSurvey
from engine.services.dr.other_fences import COMMAND_NOTES, CalledCommand, CommandFence
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.steps import CheckFailed
from engine.services.dr.switchover.world import SwitchoverWorld
from engine.state.state import MovedTopic, desired_of
from policies.dr.advice import DR_SWITCHOVER
from policies.dr.fence import FENCE_NOTES, FENCE_STEP, FenceRow
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, Fact, has_standing_fence, undone
from policies.model import TopicPartition
from policies.words import counted


class MoveBackChoices(MoveChoices, frozen=True, kw_only=True):
    """What the operator has chosen for the way back. `topics`: of the source, whose producers had moved."""


def move_back_choices_of(facts: Mapping[str, Fact]) -> MoveBackChoices:
    """Return the choices that an operation has stored."""
    known = move_choices_of(facts)
    return MoveBackChoices(**{name: getattr(known, name) for name in MoveChoices.__struct_fields__})


class MoveBackCheckStep:
    """Checks that producers wrote nothing to the target since they moved. It changes nothing."""

    def __init__(
        self, survey: MoveSurvey, world: SwitchoverWorld, store: OperationStore | None, choices: MoveBackChoices
    ) -> None:
        self._survey, self._world, self._store, self._choices = survey, world, store, choices

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises CheckFailed."""
        del run
        if left := self.refused(await self.look()):
            raise CheckFailed(left)
        return {"topics": len(self._choices.topics)}

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}

    def refused(self, reasons: Reasons) -> Reasons:
        """Return the reasons that the operator does not accept."""
        return tuple(one for one in reasons if one[0] not in self._choices.ignore)

    async def look(self) -> Reasons:
        """Return what is in the way. Raises BrokerUnreachable, ConnectionLost, KafkaRefusal."""
        world, found = self._world, list[tuple[str, str]]()
        source, target = world.flow.name
        back = f"{target}->{source}"
        if desired_of(await world.state()).failed_over:
            why = f"flow {world.flow.name} was stopped for good, so applications use {target}: go back with"
            found.append(("flow-failed-over", f"{why} {DR_SWITCHOVER.given(back)}"))
        moved = (await self._survey.log.read()).topics
        written, unknown = await self._written(moved)
        for topic, records in sorted(written.items()):
            why = f"producers wrote {counted(records, 'record')} of {topic} to {target}, which {source} lacks"
            found.append(("written-on-target", f"{why}: go back with {DR_SWITCHOVER.given(back)}"))
        found += [("not-known", f"{subject}: {why}") for subject, why in sorted(unknown.items())]
        return (*found, *self._shared_fences(moved))

    async def _written(self, moved: Mapping[str, MovedTopic]) -> tuple[Counter[str], dict[str, str]]:
        """Return what producers wrote to the target since they moved, as records at most, and what is not known."""
        if not self._world.keeps_names:
            return await self._behind_starts(moved), {}
        topics, found = set(self._choices.topics), Counter[str]()
        others, known = await self._world.other_writers(), await self._world.stored()
        for one in others.found:
            if one.topic in topics:
                found[one.topic] += one.records
        copies = {self._world.flow.selection.target_topic(name): name for name in topics}
        unknown = {lane: why for lane, why in others.unknown.items() if lane.rpartition("-")[0] in copies}
        copied = {one.target for one in known.lanes if one.ours}
        alone = [lane for lane in await self._partitions(copies) if lane not in copied]
        begins = await self._world.target.offsets(alone, EARLIEST) if alone else {}
        for lane, records in (await self._grown(begins)).items():
            found[copies[lane.topic]] += records
        return found, unknown | dict(known.unread)

    async def _behind_starts(self, moved: Mapping[str, MovedTopic]) -> Counter[str]:
        """Return what lies in topics of the same names behind where producers began, if copies have a prefix."""
        lanes = await self._partitions({name for name in self._choices.topics if name in moved})
        ends = await self._world.copy_ends(lanes) if lanes else {}
        found = Counter[str]()
        for lane, end in ends.items():
            found[lane.topic] += end - start_of(moved[lane.topic], lane.partition, end)
        return +found

    async def _partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions that topics of the target have now: they may have been created since the move."""
        there = await self._world.target_settings.topics(sorted(topics))
        return [TopicPartition(name, number) for name, one in there.items() for number in range(one.partitions)]

    async def _grown(self, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        ends = await self._world.copy_ends(begins) if begins else {}
        return {lane: end - begins[lane] for lane, end in ends.items() if end > begins[lane]}

    def _shared_fences(self, moved: Collection[str]) -> Reasons:
        """Name the fences of a command that keep producers from other moved topics too: it opens all, or none."""
        if self._store is None:
            return ()
        found = list[tuple[str, str]]()
        for one in standing(self._store, self._world.flow.name.source):
            others = sorted({*topics_of(one)} & {*moved} - {*self._choices.topics})
            if others and self._store.notes(one, COMMAND_NOTES, CalledCommand):
                why = f"the command that fenced them in {one.kind} {one.id} opens {', '.join(others)} too"
                found.append(("fence-of-more-topics", f"{why}: name all of them"))
        return tuple(found)


class ReleaseStep:
    """Lets the flow copy the topics again."""

    def __init__(self, world: SwitchoverWorld, control: FlowControl, choices: MoveBackChoices) -> None:
        self._world, self._control, self._topics = world, control, choices.topics

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        if self._world.keeps_names:
            run.assure()
            await self._control.release_moved(self._topics)
        return {}

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        if self._world.keeps_names:
            run.assure()
            await self._control.pause_moved(self._topics)
        return {}


class HandBackStep:
    """Opens the source to the producers, and forgets that they have moved: last, so that a kill leaves the names."""

    def __init__(
        self, survey: MoveSurvey, world: SwitchoverWorld, store: OperationStore, choices: MoveBackChoices
    ) -> None:
        self._survey, self._world, self._store, self._topics = survey, world, store, choices.topics
        self._hook = MoveHook(world.config, world.flow)

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed, FenceRefused, HookFailed."""
        lifted, moved = 0, (await self._survey.log.read()).topics
        for one in standing(self._store, self._world.flow.name.source):
            lifted += await self._lift(run, one, moved)
        await self._hook.call(MovePhase.UNDONE, self._topics)
        run.assure()
        await self._survey.log.remove_topics(self._topics)
        return {"topics": len(self._topics), "lifted_bindings": lifted}

    async def _lift(self, run: StepRun, one: DrOperation, moved: Collection[str]) -> int:
        """Take away what a move keeps producers from these topics with; a fence of no other moved topic is over.

        A command opens all topics of its move. The check has refused that, or somebody has accepted it.
        """
        lifted, rows = 0, self._store.notes(one, FENCE_NOTES, FenceRow) or ()
        is_whole = not {*topics_of(one)} & {*moved} - {*self._topics}
        opens = is_whole or bool({*topics_of(one)} & {*self._topics})
        if opens and self._store.notes(one, COMMAND_NOTES, CalledCommand):
            run.assure()
            await CommandFence(self._world.config.fence_command, one.flow).lift(one.id)
        mine = [row.binding for row in rows if row.binding.name in self._topics]
        if mine:
            run.assure()
            lifted = await take_back(run, self._world.source_settings, mine)
        if is_whole:
            await self._store.save(undone(one, FENCE_STEP, one.ended_ms, {}))
        return lifted

    async def undo(self, run: StepRun) -> Facts:
        """See Step: it is the point of no return."""
        del run
        return {}


def standing(store: OperationStore, source: str) -> list[DrOperation]:
    """Return the moves that have ended and keep producers from topics of a cluster."""
    return [
        one
        for one in store.operations
        if one.kind == OperationKind.MOVE.value and one.has_ended and one.source == source and has_standing_fence(one)
    ]


def topics_of(move: DrOperation) -> tuple[str, ...]:
    """Return the topics of a move of producers."""
    return tuple(str(move.choices.get("topics", "")).split())


def move_back_steps(
    world: SwitchoverWorld, store: OperationStore, control: FlowControl, choices: MoveBackChoices
) -> dict[str, Step]:
    """Return the steps by their names in the table; `world` is connected if both clusters answer."""
    about, survey = world.about(choices.topics), MoveSurvey(world)
    return {
        "check": MoveBackCheckStep(survey, about, store, choices),
        "release": ReleaseStep(about, control, choices),
        "hand-back": HandBackStep(survey, about, store, choices),
    }

"""The steps of a switchover up to the settled state: check, fence, drain, pause, groups, settle.

Each looks first at what is there, because it may run again after a kill at any point (`policies.dr.operation_steps`).
"""

from collections.abc import Collection

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, MirrorError
from engine.flow.config_sync.sync import LOOP
from engine.flow.failback.diverged_rows import grown
from engine.flow.groups.status import FOR_GOOD, PASSING, GroupStatus, first_reasons, waiting_text
from engine.flow.groups.translations import UNREAD_STINTS
from engine.flow.operations.driver import Facts, Step, StepRun
from engine.flow.operations.fencing import Fence
from engine.services.config_service import config_sync
from engine.services.dr.switchover.flow_control import FlowControl, NoMirrorCopies
from engine.services.dr.switchover.world import (
    DrainedEnd,
    DrainWorld,
    NotDrained,
    SwitchoverWorld,
    grown_since_move,
    grown_text,
)
from engine.services.quarantine import LeftOutRow
from engine.state.moves import Moves
from policies.dr.advice import DR_RESUME, IGNORE, QUARANTINE_DROP, QUARANTINE_REPLAY
from policies.dr.readiness import Unready, UnreadyName
from policies.groups import Why
from policies.model import TopicPartition
from policies.words import counted, some_of

DRAINED_NOTES, GROUP_NOTES, LEFT_OUT_NOTES = "drained", "groups", "left-out"
GROUPS_NOT_EQUAL, LEFT_OUT = "groups-not-equal", "left-out-records"
"""The names with which an operator accepts groups that will not be equal, and records that the target will not have."""
_LOOK_S = 1.0
_STILL_GROWS_S = 30.0
"""A partition that has not grown for so long grows no more."""
_IN_THE_WAY = FOR_GOOD | {Why.ACTIVE.value}
_BETWEEN_LOOKS = (BrokerUnreachable, ConnectionLost)


class SwitchoverLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that steps may take: `drain_s` for all that is left to copy, `groups_s` for the groups."""

    drain_s: float = 300.0
    groups_s: float = 60.0


class CheckFailed(MirrorError):
    """A switchover may not begin: the name and the sentence of each reason."""

    exit_code = 1

    def __init__(self, reasons: tuple[tuple[str, str], ...]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        text = "; ".join(f"{name}: {why}" for name, why in self.reasons)
        return f"{text} (a reason that you accept: {IGNORE.given('NAME')})"


class WrittenBehind(MirrorError):
    """Producers still write to the source behind the fence: topics, with the records that came."""

    exit_code = 1

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics)
        self.topics = topics

    def __str__(self) -> str:
        grown = some_of({topic: counted(count, "offset") for topic, count in self.topics.items()})
        return f"written to the source behind the fence: {grown}; stop these producers (super users pass every fence)"


class NotEqual(MirrorError):
    """Consumer groups are not on the target exactly where they are on the source: why, by group."""

    exit_code = 1

    def __init__(self, why: dict[str, str]) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return (
            f"groups that are not equal: {some_of(self.why)} (to go on without them: {DR_RESUME.given()} with"
            f" {IGNORE.given(GROUPS_NOT_EQUAL)})"
        )


def decide() -> str:
    """Say what is right for records that the target refused."""
    return f"replay or drop them first: {QUARANTINE_REPLAY.given()}, or {QUARANTINE_DROP.given()}"


class TargetLacksRecords(MirrorError):
    """The target refused records, and nobody has replayed or dropped them: rows, by partition."""

    exit_code = 1

    def __init__(self, rows: tuple[LeftOutRow, ...]) -> None:
        super().__init__(rows)
        self.rows = rows

    def __str__(self) -> str:
        return (
            f"the target lacks {some_of({str(row.lane): row.text for row in self.rows})}; {decide()}, then:"
            f" {DR_RESUME.given()} (to leave them behind: {IGNORE.given(LEFT_OUT)})"
        )


class CheckStep:
    """Checks that a switchover may begin. It changes nothing, so a dry run is this step alone."""

    def __init__(self, world: SwitchoverWorld, fence: Fence, control: FlowControl, ignored: frozenset[str]) -> None:
        self._world, self._fence, self._control, self._ignored = world, fence, control, ignored

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises CheckFailed, FenceRefused."""
        del run
        reasons, facts = await self.look()
        left = tuple(one for one in reasons if one[0] not in self._ignored)
        if left:
            raise CheckFailed(left)
        return facts

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}

    async def look(self) -> tuple[tuple[tuple[str, str], ...], Facts]:
        """Return what is in the way, by name, and the facts. Raises FenceRefused, BrokerUnreachable, KafkaRefusal."""
        world, found, moves = self._world, list[tuple[str, str]](), await self._world.moved()
        topics = await topics_to_fence(world, moves)
        facts = await self._fence.refuse(topics)
        if not await self._control.is_copying():
            found.append(("no-mirror", "no mirror copies the flow, so the target cannot catch up"))
        found += [("topic-paused", paused_by_hand(name)) for name in await world.paused_topics()]
        found += [("copies-not-whole", text) for text in await self._unwhole()]
        found += await records_in_the_way(world, self._control, topics)
        found += [("written-since-move", text) for text in await self._written_since(moves)]
        ready = await world.readiness()
        found += [(one.name.value, f"{one.subject}: {one.why}") for one in ready.unready if self._counts(one)]
        found += [("readiness-unknown", text) for text in ready.unknown]
        standing = await world.hold(0.0, commit=False, undrained={})
        found += [("group-not-read", f"group {group}: {why}") for group, why in standing.failed.items()]
        found += [(GROUPS_NOT_EQUAL, f"group {group}: {why}") for group, why in in_the_way(standing).items()]
        found += [("settings-differ", text) for text in await self._differences(moves)]
        return tuple(found), {**facts, "groups": standing.groups}

    def _counts(self, gap: Unready) -> bool:
        """Whether a gap matters: if copies have a prefix, brokers make topics for producers when they first write."""
        return gap.name is not UnreadyName.NO_TOPIC or self._world.keeps_names

    async def _written_since(self, moves: Moves) -> list[str]:
        """Say which topics were written to on the source after their move; copies of the same name lack that."""
        if not self._world.keeps_names:
            return []
        grown = await grown_since_move(self._world, moves.topics)
        return [
            f"{counted(count, 'offset')} of {topic} came on the source after its producers had moved, and no copy has"
            f" them: raymirror move --topics '{topic}' --undo copies them, if nothing was written to the target since"
            for topic, count in sorted(grown.items())
            if count > 0
        ]

    async def _unwhole(self) -> list[str]:
        known = await self._world.stored()
        bad = {str(one.lane): one.why for one in known.lanes if one.source_next < 0}
        return [f"{subject}: {why}" for subject, why in (bad | known.unread).items()]

    async def _differences(self, moves: Moves) -> list[str]:
        """Return how configs and ACLs differ that the flow keeps in step, without copies that are producers' own."""
        wanted = self._world.flow.config_sync
        if not (wanted.configs or wanted.acls):
            return []
        scope = msgspec.structs.replace(LOOP, configs=wanted.configs, acls=wanted.acls)
        handed_over = moves.topics if self._world.keeps_names else ()
        async with config_sync(self._world.config, self._world.flow, "raymirror-switchover", handed_over) as sync:
            plan = await sync.compare(scope)
        return [str(msgspec.to_builtins(change)) for change in plan.changes]


def paused_by_hand(topic: str) -> str:
    """Say that an operator has paused a topic, and what would be right."""
    return f"an operator paused topic {topic!r}: resume it with raymirror resume"


async def records_in_the_way(world: DrainWorld, control: FlowControl, topics: Collection[str]) -> list[tuple[str, str]]:
    """Name the partitions of these topics of which the target refuses, or has refused, records.

    Raises what `DrainWorld.left_out` raises, MirrorError if the mirror does not answer.
    """
    stopped = [
        ("partition-stopped", why if why.startswith(f"{lane}: ") else f"{lane}: {why}")
        for lane, why in sorted((await control.stopped_lanes()).items())
        if lane.topic in topics
    ]
    return [*stopped, *((LEFT_OUT, f"{row}; {decide()}") for row in await world.left_out())]


async def topics_to_fence(world: SwitchoverWorld, moves: Moves) -> list[str]:
    """Return the topics to keep producers from: a move of producers has fenced its own, and an abort leaves them so."""
    return [name for name in await world.fenced_topics() if name not in moves.topics]


class FenceStep:
    """Keeps producers from the source."""

    def __init__(self, world: SwitchoverWorld, fence: Fence) -> None:
        self._world, self._fence = world, fence

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FenceRefused, FenceFailed."""
        return await self._fence.close(run, await topics_to_fence(self._world, await self._world.moved()))

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed."""
        return await self._fence.open(run)


class SourceGrowth:
    """Compares where the source ended when a drain began with where it ends now: if it grows, somebody still writes."""

    def __init__(self) -> None:
        self._began: dict[TopicPartition, int] = {}
        self._last: dict[TopicPartition, tuple[int, float]] = {}
        """The last seen end, and since when it is there."""
        self.grown: dict[str, str] = {}
        """The partitions that had grown lately at the last look, and from where to where.

        One that has only got the end of a transaction, or a request that was on its way, does not stay here.
        """

    def see(self, ends: Collection[DrainedEnd]) -> None:
        """Take note of a look; one that failed has no ends, and changes nothing."""
        if not ends:
            return
        now, now_at_s = {one.lane: one.end for one in ends}, now_s()
        self._began = now | self._began
        moved = {lane: (end, now_at_s) for lane, end in now.items() if end > self._last.get(lane, (-1, 0.0))[0]}
        self._last |= moved
        lately = {lane for lane, (_, at_s) in self._last.items() if now_at_s - at_s < _STILL_GROWS_S}
        self.grown = grown(
            {lane: end for lane, end in self._began.items() if lane in lately and now.get(lane, -1) > end}, now
        )


class DrainStep:
    """Waits until the target has every record of the source, and no transaction is open there.

    What the target refused is not waited for: nothing but a replay brings it there. It is counted once all else is
    there, because records may have been refused since the check.
    """

    def __init__(
        self, world: SwitchoverWorld, control: FlowControl, limits: SwitchoverLimits, ignored: frozenset[str]
    ) -> None:
        self._world, self._control, self._limits, self._accepts = world, control, limits, LEFT_OUT in ignored

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotDrained, NoMirrorCopies, TargetLacksRecords."""
        give_up_at_s, growth = now_s() + self._limits.drain_s, SourceGrowth()
        while True:
            why, ends, left_out = await self._look()
            growth.see(ends)
            if not why:
                if left_out and not self._accepts:
                    raise TargetLacksRecords(left_out)
                await run.keep(LEFT_OUT_NOTES, left_out)
                await run.keep(DRAINED_NOTES, ends)
                return {"partitions": len(ends), "records_lost": sum(row.records for row in left_out)}
            if now_s() >= give_up_at_s:
                raise NotDrained(why, growth.grown)
            if not await self._control.is_copying():
                raise NoMirrorCopies(str(self._world.flow.name), some_of(why))
            run.say(f"{counted(len(why), 'partition')} not drained: {some_of(why)}{grown_text(growth.grown)}")
            await pause(_LOOK_S)

    async def _look(self) -> tuple[dict[str, str], tuple[DrainedEnd, ...], tuple[LeftOutRow, ...]]:
        """Return what is not drained and why; the ends; what the target refused, if all else is drained."""
        try:
            why, ends = await self._world.undrained()
            if not why:
                return why, ends, await self._world.left_out()
            paused = set(await self._world.paused_topics())
            topics = {str(end.lane): end.topic for end in ends}
            for subject in why:
                if (topic := topics.get(subject, "")) in paused:
                    why[subject] += f"; {paused_by_hand(topic)}"
            return why, ends, ()
        except _BETWEEN_LOOKS as lost:
            return {"a cluster": str(lost)}, (), ()

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}


class PauseStep:
    """Pauses the flow, so that its positions are exact."""

    def __init__(self, control: FlowControl) -> None:
        self._control = control

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        run.assure()
        await self._control.pause()
        return {}

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        run.assure()
        why_not = await self._control.resume()
        return {"not_copied_again": why_not} if why_not else {}


class GroupsStep:
    """Commits the translated offsets of all groups on the target, exactly.

    Producers are kept out meanwhile. So it waits only while that may help, and says for what.
    """

    def __init__(self, world: SwitchoverWorld, limits: SwitchoverLimits, ignored: frozenset[str]) -> None:
        self._world, self._limits, self._accepts = world, limits, GROUPS_NOT_EQUAL in ignored

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotEqual, BrokerUnreachable, ConnectionLost."""
        standing = await self._committed(run)
        why = why_unequal(standing)
        if why and not self._accepts:
            raise NotEqual(why)
        await run.keep(GROUP_NOTES, [GroupRow(group, text) for group, text in sorted(why.items())])
        return {"groups": standing.groups, "groups_not_equal": len(why)}

    async def _committed(self, run: StepRun) -> GroupStatus:
        give_up_at_s = now_s() + self._limits.groups_s
        while True:
            late = now_s() >= give_up_at_s
            run.assure()
            try:
                standing = await self._world.hold(0.0, commit=True, undrained={})
            except _BETWEEN_LOOKS as lost:
                if late:
                    raise
                why = {"a cluster": str(lost)}
            else:
                why = may_become_equal(standing, accepts=self._accepts)
                if late or not why:
                    return standing
            run.say(waiting_text(why, give_up_at_s - now_s()))
            await pause(_LOOK_S)

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}


class GroupRow(msgspec.Struct, frozen=True):
    """A group that is not equal on both clusters, and why."""

    group: str
    why: str


def why_unequal(standing: GroupStatus) -> dict[str, str]:
    """Return the groups that are not equal, each with its first reason, and brokers whose groups are not known."""
    return first_reasons(standing.unequal) | standing.failed | standing.missing


def in_the_way(standing: GroupStatus) -> dict[str, str]:
    """Return the groups that cannot be equal: ahead on the target, active there, before the map, or expired there."""
    return first_reasons(one for one in standing.unequal if one.why in _IN_THE_WAY or UNREAD_STINTS in one.why)


def may_become_equal(standing: GroupStatus, *, accepts: bool) -> dict[str, str]:
    """Return what waiting may help, and why it is not equal; empty if waiting is in vain.

    `accepts`: groups that need an operator, because they are active or have no target offset, are not waited for.
    """
    if not accepts and any(one.is_for_good for one in standing.unequal):
        return {}  # the step fails in any case, and producers wait
    left = [one for one in standing.unequal if (one.why in PASSING if accepts else True)]
    return first_reasons(left) | standing.failed | standing.missing


def gone_on(standing: GroupStatus) -> dict[str, str]:
    """Return the groups that stand further on the source than they were committed on the target, and how far."""
    rows = [one for one in standing.unequal if 0 <= one.stored < one.target_offset]
    return {
        one.group: (
            f"{one.topic}-{one.partition}: it consumed on the source after it was committed on the target, and reads"
            f" {counted(one.target_offset - one.stored, 'offset')} again there"
        )
        for one in reversed(rows)
    }


class SettleStep:
    """Checks that nothing was written behind the fence; what was written is drained, and it checks again.

    `halt`: what brings the flow to rest before that. `drain`: what copies that; `again`: what must be done after it.
    """

    def __init__(
        self, world: SwitchoverWorld, halt: Step, drain: Step, again: tuple[Step, ...], rounds: int = 3
    ) -> None:
        self._world, self._halt, self._drain, self._again, self._rounds = world, halt, drain, again, rounds

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises WrittenBehind if producers go on to write.

        A driver may have been killed while the flow copied again. So everything that follows a drain is done again
        before the ends are compared.
        """
        seen: dict[str, int] = {}
        for _ in range(self._rounds):
            await self._halt.do(run)
            for step in self._again:
                await step.do(run)
            grown = await self._world.grown(run.notes(DRAINED_NOTES, DrainedEnd) or ())
            if not grown:
                return {"offsets_behind_the_fence": sum(seen.values())}
            for one in grown:
                seen[one.topic] = seen.get(one.topic, 0) + one.end - one.drained_to
            run.say(f"written behind the fence: {some_of({topic: str(count) for topic, count in seen.items()})}")
            await self._halt.undo(run)
            await self._drain.do(run)
        raise WrittenBehind(seen)

    async def undo(self, run: StepRun) -> Facts:
        """See Step."""
        del run
        return {}

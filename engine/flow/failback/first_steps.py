"""Prepares a failback: the steps before the point of no return, which write no record."""

from collections.abc import Sequence

from engine.core.position.position import ForeignPosition, decode_value
from engine.flow.failback.copying import positions_of
from engine.flow.failback.counting import FailbackWish, count, look_ahead, topics_of
from engine.flow.failback.diverged_rows import ROUNDS, counted_ends, diverged_now, grown
from engine.flow.failback.errors import NOT_FAILED_OVER, FailbackReason, FailbackRefused, NotStored, SourceWritten
from engine.flow.failback.lent_configs import change, give_back
from engine.flow.failback.rows import LANES, LaneRow
from engine.flow.failback.step import FailbackStep
from engine.flow.failback.world import FailbackWorld
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.fencing import Fence
from engine.flow.ports.settings_port import Settings
from policies.dr.advice import DR_HISTORY
from policies.dr.failback import FailbackChoice
from policies.dr.fence import FENCE_NOTES
from policies.dr.lent_config import CLEANUP, LENT_NOTES, RETENTION, LentConfig, endless_retention
from policies.dr.operation_steps import CHOICE, EXPORT, MAKE_ANEW
from policies.model import TopicPartition

_NAMED = 5


class Check(FailbackStep):
    """Checks that the flow was failed over, that nothing has gone the other way since, and what is seen beforehand."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FailbackRefused."""
        world, flow = self.world, str(self.world.forward.flow)
        if reasons := await flow_reasons(world):
            raise FailbackRefused(reasons)
        run.say(f"{flow} was failed over")
        if reasons := await look_ahead(world, asked_of(run)):
            raise FailbackRefused(reasons)
        return {"failed_over_ms": await world.guard.failed_over_ms()}


def asked_of(run: StepRun) -> FailbackWish:
    """Return what the operator has asked for."""
    choice = FailbackChoice(str(run.choice(CHOICE)))
    return FailbackWish(choice=choice, exports=bool(run.choice(EXPORT)), confirms=bool(run.choice(MAKE_ANEW)))


async def flow_reasons(world: FailbackWorld) -> tuple[FailbackReason, ...]:
    """Return why the flow cannot be failed back at all. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
    failed_over_ms = await world.guard.failed_over_ms()
    if failed_over_ms < 0:
        why = f"it was not failed over, or was failed back since; see: {DR_HISTORY.given(str(world.forward.flow))}"
        return (FailbackReason(NOT_FAILED_OVER, str(world.forward.flow), why),)
    if after := await _copied_back(world, failed_over_ms):
        why = (
            "its positions are younger than the failover, or behind the end of the copy, so records that came from the"
            f" target may be on the source already: {', '.join(after[:_NAMED])}"
        )
        return (FailbackReason("reverse-flow-ran", str(world.back.flow), why),)
    return ()


async def _copied_back(world: FailbackWorld, since_ms: int) -> list[str]:
    """Return the lanes of the reverse flow that have a copier's position since the failover.

    One that was only set says that nothing was copied: a copier stores its own before it copies. Positions and the
    failover have the clocks of different machines. So a position counts, too, that is behind the end of the copy: the
    reverse flow can have read no further than that before the flow wrote there.
    """
    cluster, back = world.source.cluster, world.back
    if not await cluster.leaders([TopicPartition(back.positions_topic, 0)]):
        return []
    records = await cluster.read_stamped(back.positions_topic)
    lanes = ((back.position_keys.decode(one.key), one.value) for one in records if one.timestamp > since_ms)
    young = {lane for lane, value in lanes if lane is not None and _is_of_copier(value)}
    ends = {one.target: one.target_next for one in (await world.known()).values() if one.ours and one.target_next >= 0}
    stored = await positions_of(cluster, back)
    further = {lane for lane, one in stored.items() if lane in ends and one.source_next > ends[lane]}
    return sorted(map(str, young | further))


def _is_of_copier(value: bytes | None) -> bool:
    """Whether a stored position is one that a copier has written, or may be."""
    try:
        found = decode_value(value)
    except ValueError:
        return True
    return found is not None and not (isinstance(found, ForeignPosition) and found.altered)


class Fenced(FailbackStep):
    """Keeps producers from the source; they stay out when the failback has ended."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FenceRefused, FenceFailed."""
        return await self.world.fence.close(run, sorted(await topics_of(self.world)))

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed."""
        return await opened(self.world.fence, run)


class Retention(FailbackStep):
    """Lets the source delete nothing by time."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        settings, topics = self.world.source.settings, await topics_of(self.world)
        answers = await settings.configs(dict.fromkeys(topics, (CLEANUP, RETENTION))) if topics else None
        if answers is not None and answers.failed:
            raise NotStored("the retention of source topics", answers.failed)
        known = {one.topic: one for one in run.notes(LENT_NOTES, LentConfig) or ()}
        wanted = endless_retention(answers.found if answers is not None else {})
        rows = known | {one.topic: one for one in wanted if one.topic not in known}
        await run.keep(LENT_NOTES, list(rows.values()))  # the earlier values, before any is changed
        run.assure()
        if failed := await change(settings, rows.values()):
            raise NotStored("the retention of source topics", failed)
        return {"topics": len(rows)}

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        return await unlent(self.world.source.settings, run)


async def restored(settings: Settings, run: StepRun) -> Facts:
    lent = run.notes(LENT_NOTES, LentConfig) or ()
    run.assure()
    if failed := await give_back(settings, lent):
        raise NotStored("the retention of source topics", failed)
    return {"restored": len(lent)}


async def unlent(settings: Settings, run: StepRun) -> Facts:
    """Restore the retention, and forget what it was: it may be another one when it is lent again."""
    facts = await restored(settings, run)
    await run.keep(LENT_NOTES, [])
    return facts


async def opened(fence: Fence, run: StepRun) -> Facts:
    """Take the fence away, and forget what it was: one that is made later is planned by what is there then."""
    facts = await fence.open(run)
    await run.keep(FENCE_NOTES, [])
    return facts


class Count(FailbackStep):
    """Finds the exact end of each copy, counts, and refuses what would do harm."""

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FailbackRefused."""
        counted = await count(self.world, asked_of(run))
        if counted.reasons:
            raise FailbackRefused(counted.reasons)
        rows = counted.rows
        await run.keep(LANES, list(rows))
        torn = sum(one.diverged.torn for one in counted.found if one.diverged is not None)
        return {
            "partitions": len(rows),
            "left": len(counted.left),
            "diverged": sum(row.diverged for row in rows),
            "expired": sum(one.separation.expired_here for one in counted.found),
            "new": sum(row.new for row in rows),
            "torn": torn,
            "made_anew": len(counted.anew),
            "copied_whole_bytes": sum(counted.anew.values()),
        }


class Export(FailbackStep):
    """Writes to files what only the source has, and reads them back.

    It is the last step before records are copied, so it ends only if the source is still as it was counted.
    """

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises what the export raises, SourceWritten, FailbackRefused."""
        more: dict[str, str] = {}
        for _ in range(ROUNDS):
            rows = self.rows(run)
            facts = await self._export(run, [row for row in rows if row.diverged])
            more = grown(counted_ends(rows), await self.source_ends(rows))
            if not more:
                return facts
            named = "; ".join(f"{lane}: {what}" for lane, what in list(more.items())[:_NAMED])
            run.say(f"the source has grown, so it is counted again: {named}")
            await Count(self.world).do(run)
        raise SourceWritten(more)

    async def _export(self, run: StepRun, rows: Sequence[LaneRow]) -> Facts:
        if not rows:
            return {"records": 0}
        where, records = await self.world.export(await diverged_now(self.world, rows), str(run.choice(EXPORT)))
        return {"to": where, "records": records}

"""Makes source topics anew: deletes them, and creates them empty, for their copies to be copied back whole.

    stored: the topics as they are, the commits of their groups -> deleted -> created -> stored: made

Until a topic is deleted, all that the source got since it was counted is taken up: copied late, or exported again. The
turn runs this step again for what has grown since.
"""

from collections.abc import Collection, Sequence

import msgspec

from engine.flow.failback.copy_steps import LateCopy
from engine.flow.failback.counting import MADE_ANEW, commits_on, left_reasons
from engine.flow.failback.diverged_rows import ROUNDS, counted_ends, exported_again, grown, keep_late, keep_rows
from engine.flow.failback.errors import FailbackReason, FailbackRefused, SourceWritten
from engine.flow.failback.rows import ANEW, COMMITS, GroupCommit, LaneRow, LateRow, made_lanes
from engine.flow.failback.step import FailbackStep
from engine.flow.failback.world import FailbackWorld
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.remaking.topics import AnewTopic, TopicRemaker
from engine.flow.surveys.unreplicated import unreplicated
from policies.dr import advice
from policies.dr.failback import FailbackChoice
from policies.dr.operation_steps import MAKE_ANEW
from policies.model import TopicPartition

UNREPLICATED = "not-replicated"


class MakeAnew(FailbackStep):
    """Deletes the source topics that must be equal to their copies, and creates them again."""

    def __init__(self, world: FailbackWorld, choice: FailbackChoice) -> None:
        super().__init__(world)
        self._choice = choice
        self._remaker = TopicRemaker(world.source.settings, world.source.cluster)

    async def do(self, run: StepRun) -> Facts:
        """See Step. Raises FailbackRefused, SourceWritten, NotMade, and what the late copy raises."""
        for _ in range(ROUNDS):
            rows = await self._taken_up(run)
            topics = frozenset(row.topic for row in rows if row.anew)
            self._confirmed(run, topics)
            noted = await self._noted(run, rows, topics)
            if not (more := grown(counted_ends(rows), await self.source_ends(rows))):
                break
            run.say(f"the source has grown: {'; '.join(f'{lane}: {what}' for lane, what in more.items())}")
        else:
            raise SourceWritten(more)
        for one in noted:
            run.say(f"making topic {one.topic} anew on the source: {one.partitions} partitions")
            await self._see_taken_up(run, one)
            await self._remaker.make(one, run.assure)
            await self._keep_made(run, [one])
        return {"topics": len({row.topic for row in self.rows(run) if row.made})}

    async def _see_taken_up(self, run: StepRun, one: AnewTopic) -> None:
        """Look once more at a topic right before it is deleted: others before it may have taken minutes.

        Raises SourceWritten if it has grown, FailbackRefused for records of partitions that have no copy, or that only
        a leader has: with acks=1 they are acknowledged before any reader sees them.
        """
        if one.topic in await self._remaker.deleted([one]):
            return
        rows = [row for row in self.old_rows(run) if row.topic == one.topic]
        ends = await self.source_ends(rows)
        if more := grown(counted_ends(rows), ends):
            raise SourceWritten(more)
        if coming := await unreplicated(self.world.source.cluster, ends):
            why = "only its leader on the source has its last records; try again when its replicas are back"
            raise FailbackRefused([FailbackReason(UNREPLICATED, str(one), why) for one in sorted(coming)])
        known = {row.partition for row in rows}
        there = (await self.world.source.settings.topics([one.topic]))[one.topic].partitions
        left = [TopicPartition(one.topic, number) for number in range(there) if number not in known]
        if reasons := await left_reasons(self.world, left):
            raise FailbackRefused(reasons)

    async def _taken_up(self, run: StepRun) -> tuple[LaneRow, ...]:
        """Take up what the source has got since it was counted; return the rows of topics that still have it."""
        known = run.notes(ANEW, AnewTopic) or ()
        gone = await self._remaker.deleted(known) if known else frozenset[str]()
        for one in known:
            if one.topic in gone and any(row.topic == one.topic for row in self.old_rows(run)):
                await self._remaker.make(one, run.assure)  # it was deleted before a kill
                await self._keep_made(run, [one])
        if self._choice is FailbackChoice.DISCARD:
            rows = self.old_rows(run)
            rows = await exported_again(self.world, run, rows, await self.source_ends(rows), deletes=True)
            await keep_late(
                run, [LateRow(topic=row.topic, partition=row.partition, source_end=row.source_end) for row in rows]
            )
        else:
            await self._late_again(run)
        rows = self.old_rows(run)
        topics = frozenset(row.topic for row in rows if row.anew or row.diverged)
        rows = tuple(msgspec.structs.replace(row, anew=row.topic in topics) for row in rows)
        await keep_rows(run, rows)
        return rows

    async def _late_again(self, run: StepRun) -> None:
        """Copy late what has come since the late copy. Its rows say where that ended; those of the count may lag."""
        late, rows = self.late(run), self.old_rows(run)
        ends = await self.source_ends(rows)
        if grown({row.source: late[row.source].source_end for row in rows}, ends):
            await LateCopy(self.world).do(run)

    @staticmethod
    def _confirmed(run: StepRun, topics: Collection[str]) -> None:
        if not topics or run.choice(MAKE_ANEW):
            return
        again = f"give the same command again with {advice.MAKE_ANEW.given()}"
        why = f"it has records that only it has, so it must be deleted: {again}"
        raise FailbackRefused([FailbackReason(MADE_ANEW, topic, why) for topic in sorted(topics)])

    async def _noted(self, run: StepRun, rows: Sequence[LaneRow], topics: Collection[str]) -> list[AnewTopic]:
        """Store what is about to be deleted: topics as they are, and the commits of groups on them."""
        if not topics:
            return []
        copies = {row.topic: row.copy_topic for row in rows if row.topic in topics}
        there = await self.world.target.settings.topics(sorted(copies.values()))
        fresh = await self._remaker.described({topic: there[copy].partitions for topic, copy in copies.items()})
        known = {one.topic: one for one in run.notes(ANEW, AnewTopic) or ()}
        await self._keep_commits(run, topics)
        await run.keep(ANEW, list((known | {one.topic: one for one in fresh}).values()))
        return fresh

    async def _keep_commits(self, run: StepRun, topics: Collection[str]) -> None:
        found, reasons = await commits_on(self.world.source.groups, self.world.groups)
        if reasons:
            raise FailbackRefused(reasons)
        fresh = {
            (group, where): GroupCommit(group, where.topic, where.partition, offset)
            for group, offsets in found.items()
            for where, (offset, _) in sorted(offsets.items())
            if where.topic in topics
        }
        # what is stored stays: after a kill a topic may look as if it were there when its commits are deleted already
        known = {
            (one.group, TopicPartition(one.topic, one.partition)): one for one in run.notes(COMMITS, GroupCommit) or ()
        }
        await run.keep(COMMITS, list((known | fresh).values()))

    async def _keep_made(self, run: StepRun, topics: Sequence[AnewTopic]) -> None:
        """Store that topics are made: nothing of what was counted on them is there any more."""
        copies = {row.topic: row.copy_topic for row in self.rows(run)}
        names = {one.topic for one in topics}
        rows = [msgspec.structs.replace(row, anew=True, made=True) for row in self.rows(run) if row.topic in names]
        for one in topics:
            known = {row.partition for row in rows if row.topic == one.topic}
            rows += made_lanes(one.topic, copies[one.topic], known, one.partitions)
        await keep_late(
            run,
            [
                LateRow(topic=row.topic, partition=row.partition, source_end=0)
                for row in rows
                if TopicPartition(row.topic, row.partition) not in self.late(run)
            ],
        )
        await keep_rows(run, rows)

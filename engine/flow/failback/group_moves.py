"""Commits for each group of the target, on the source, the first record that it has not read there.

The rules are in `policies/dr/group_moves.py`. A group with members on the source is left alone. No commit goes back.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal
from engine.core.offset_map.map_runs import MapHead
from engine.core.offset_map.offset_map import How, Translation
from engine.flow.groups.status import selected
from engine.flow.ports.ports import Groups, Stored
from policies.dr.anew_places import AnewLog, anew_place
from policies.dr.group_moves import KeptLogs, SourcePlace, source_place
from policies.dr.group_places import PlaceReason
from policies.groups import GroupSelection, GroupState
from policies.model import TopicPartition

_NO_PLACE = "it has no commit that could be translated"


class MoveMaps(Protocol):
    """The exact maps of lanes of one flow."""

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """Read all that was written about these lanes until now."""

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Return the target offset of the first copied record at or after a source offset."""

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        """Return the source offset of the first copied record at or after a target offset."""

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory."""

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends; None if it is not known."""


class MovedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a group; offsets are -1 if there is none. `repeats`: records that it reads again, at most.

    `target_offset`: its commit on the target. `before`: its commit on the source before the failback. `offset`: its
    place there now. `why`: why it is not committed; empty if it is.
    """

    group: str
    topic: str
    partition: int
    target_offset: int
    before: int
    offset: int
    repeats: int
    reason: PlaceReason
    why: str = ""

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_equal(self) -> bool:
        """Whether the group reads on the source exactly what it has not read."""
        return not self.why and self.reason is PlaceReason.EXACT


class MovedGroups(msgspec.Struct, frozen=True, kw_only=True):
    """All groups that were looked at; `failed`: groups that could not be read, and why."""

    moved: tuple[MovedPartition, ...] = ()
    failed: dict[str, str] = {}

    @property
    def is_equal(self) -> bool:
        """Whether every group reads on the source exactly what it has not read."""
        return not self.failed and all(one.is_equal for one in self.moved)


class FailedBackLane(msgspec.Struct, frozen=True, kw_only=True):
    """One source partition, its copy on the target, and the parts of both.

    `is_anew`: the source partition was made anew from its copy. `discards`: what the source had alone is gone then.
    `source_start`, `target_start`: where the logs begin.
    """

    source: TopicPartition
    target: TopicPartition
    logs: KeptLogs
    is_anew: bool = False
    discards: bool = False
    source_start: int = 0
    target_start: int = 0


Commits = Mapping[str, Mapping[TopicPartition, int]]
"""Commits on the source by group; -1: none."""


class GroupMoves:
    """The groups of one flow. `forward`: the maps of the flow, `back`: those of the reverse flow."""

    def __init__(
        self, selection: GroupSelection, source: Groups, target: Groups, forward: MoveMaps, back: MoveMaps
    ) -> None:
        self._selection = selection
        self._source, self._target = source, target
        self._forward, self._back = forward, back

    async def move(
        self, lanes: Sequence[FailedBackLane], earlier: Commits, begun: Callable[[Commits], Awaitable[Commits]]
    ) -> MovedGroups:
        """Read the groups, and commit their places on the source.

        `earlier`: the commits of groups in topics that were made anew, from before that. `begun` is told all other
        commits before the first place is committed, and returns them as they were when it was told for the first time:
        if the step is run again, some are places of its own.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        of_copy = {lane.target: lane for lane in lanes}
        groups, _, unheard = await selected(self._target, self._selection)
        there = await self._target.offsets(groups, stable=True)
        ours = {
            group: {of_copy[where]: offset for where, (offset, _) in offsets.items() if where in of_copy}
            for group, offsets in there.found.items()
        }
        failed = unheard | there.failed
        for group in earlier.keys() - ours.keys() - failed.keys():
            if unheard:  # it may be one of those
                failed[group] = f"the target may have its commits: {next(iter(unheard.values()))}"
            else:
                ours[group] = {}
        for group, commits in earlier.items():
            if group in ours:
                anew = [lane for lane in lanes if lane.is_anew and lane.source in commits]
                ours[group] = dict.fromkeys(anew, -1) | ours[group]
        names = [group for group, offsets in ours.items() if offsets]
        await self._forward.follow([lane.source for lane in lanes])
        await self._back.follow([lane.target for lane in lanes])
        states, here = await self._source.states(names), await self._source.offsets(names)
        known = [group for group in names if group in states.found and group in here.found]
        old = {group: [lane.source for lane in ours[group] if not lane.is_anew] for group in known}
        now = {
            group: {where: here.found[group][where][0] if where in here.found[group] else -1 for where in old[group]}
            for group in known
        }
        before = await begun(now)
        moved: list[MovedPartition] = []
        for group in known:
            stored = {where: offset for where, (offset, _) in here.found[group].items()}
            gone = earlier.get(group, {})
            rows = [
                await self._anew_row(group, lane, offset, gone.get(lane.source, -1))
                if lane.is_anew
                else await self._row(group, lane, offset, before[group][lane.source])
                for lane, offset in ours[group].items()
            ]
            made = {lane.source for lane in ours[group] if lane.is_anew}
            wanted = {row.where: row.offset for row in rows if _is_behind(row, stored, made)}
            moved += await self._commit(group, rows, wanted, states.found[group])
        return MovedGroups(moved=tuple(moved), failed=failed | states.failed | here.failed)

    async def _row(self, group: str, lane: FailedBackLane, target: int, source: int) -> MovedPartition:
        """Place a group in a partition; `source`: its commit there before the failback."""
        mapped = await self._answer(self._forward, lane.source, target, is_back=True)
        place = source_place(lane.logs, source=source, target=target, mapped=mapped)
        offset = place.offset
        if place.target_offset >= 0:
            copied, again = self._copied(lane, place.target_offset)
            offset = await self._answer(self._back, lane.target, copied, is_back=False)
            place = _reading_again(place, again)
        if offset < 0 and place.reason is PlaceReason.EXACT:
            place = SourcePlace(reason=PlaceReason.NOT_MAPPED)
        if offset >= 0 and 0 <= max(source, mapped) < lane.source_start:
            offset = max(offset, lane.source_start)  # below it consumers would begin by their auto.offset.reset
            place = msgspec.structs.replace(place, reason=PlaceReason.EXPIRED)
        return MovedPartition(
            group=group,
            topic=lane.source.topic,
            partition=lane.source.partition,
            target_offset=target,
            before=source,
            offset=offset,
            repeats=place.repeats,
            reason=place.reason,
            why=_NO_PLACE if offset < 0 else "",
        )

    async def _anew_row(self, group: str, lane: FailedBackLane, target: int, source: int) -> MovedPartition:
        """Place a group in a partition that was made anew; `source`: its commit there before that."""
        read, again = self._copied(lane, target)
        here, is_gone = (-1, False) if target < 0 else await self._in_new(lane, read)
        there, was_gone, is_mapped = -1, False, True
        if source >= 0:
            copied = await self._copy_of(lane, source)
            is_mapped = copied >= 0
            there, was_gone = await self._in_new(lane, copied) if is_mapped else (-1, False)
        place = anew_place(
            AnewLog(
                new_first=(await self._in_new(lane, lane.logs.target_next))[0],
                late=tuple(
                    [
                        ((await self._in_new(lane, first))[0], (await self._in_new(lane, end))[0])
                        for first, end in lane.logs.echoes
                    ]
                ),
            ),
            target=here,
            source=there,
            discards=lane.discards and source > lane.logs.split,
            expired=(is_gone or target < 0) and (was_gone or source < 0),
        )
        if lane.logs.is_keyed and lane.logs.split < source < lane.logs.source_end:  # it reads all of D' again
            place = msgspec.structs.replace(
                place, repeats=place.repeats + source - lane.logs.split, reason=PlaceReason.REPEATS
            )
        place = _reading_again(place, again)
        if not is_mapped:
            place = msgspec.structs.replace(place, reason=PlaceReason.NOT_MAPPED)
        return MovedPartition(
            group=group,
            topic=lane.source.topic,
            partition=lane.source.partition,
            target_offset=target,
            before=source,
            offset=place.offset,
            repeats=place.repeats,
            reason=place.reason,
            why=_NO_PLACE if place.offset < 0 else "",
        )

    def _copied(self, lane: FailedBackLane, target: int) -> tuple[int, int]:
        """Return a target offset, or where the copies on the source end before it, and the offsets in between.

        A group that reads on is often further: applications write to the target meanwhile. At the end of the copies it
        has read everything that the source has.
        """
        head = self._back.head(lane.target)
        end = target if head is None else min(target, head.source_next)
        return end, target - end

    async def _copy_of(self, found: FailedBackLane, source: int) -> int:
        """Return the first copy of P and D at or after a source offset, which may lie behind all of them."""
        lane, logs = found.source, found.logs
        if logs.is_keyed and source >= logs.source_end:
            return logs.echoes[-1][1] if logs.echoes else logs.target_next
        answer, head = await answered(self._forward, lane, source, is_back=False), self._forward.head(lane)
        if answer.how is How.BEYOND and head is not None:
            return head.target_next
        return answer.offset

    async def _in_new(self, lane: FailedBackLane, target: int) -> tuple[int, bool]:
        """Return where the new log has a target offset, and whether the target may have deleted that uncopied.

        -1: it is not copied yet.
        """
        answer = await answered(self._back, lane.target, target, is_back=False)
        is_gone = target < lane.target_start and answer.how is not How.RUN
        return (0, True) if answer.how is How.BEFORE else (answer.offset, is_gone)

    @staticmethod
    async def _answer(maps: MoveMaps, lane: TopicPartition, offset: int, *, is_back: bool) -> int:
        """Ask a map, also for what lies behind the copy: its end then."""
        answer, head = await answered(maps, lane, offset, is_back=is_back), maps.head(lane)
        if answer.how is How.BEYOND and head is not None and is_back:
            return head.source_next
        return answer.offset

    async def _commit(
        self, group: str, rows: Sequence[MovedPartition], places: Mapping[TopicPartition, int], state: GroupState
    ) -> list[MovedPartition]:
        """Commit these places of one group; return its rows with the outcome."""
        wanted: dict[TopicPartition, Stored] = {where: (offset, "") for where, offset in places.items()}
        why, refused = "", dict[TopicPartition, str]()
        if wanted and state is GroupState.ACTIVE:
            why = "the group has members on the source"
        elif wanted:
            try:
                refused = await self._source.commit(group, wanted)
            except GroupActive:
                why = "the group has members on the source"
            except (BrokerUnreachable, ConnectionLost, KafkaRefusal) as failure:
                why = str(failure)
        done: list[MovedPartition] = []
        for row in rows:
            said = row.why or refused.get(row.where, "") or (why if row.where in wanted else "")
            done.append(msgspec.structs.replace(row, why=said))
        return done


async def answered(maps: MoveMaps, lane: TopicPartition, offset: int, *, is_back: bool) -> Translation:
    """Ask a map, and read the block back that has the answer."""
    asked = maps.source_of if is_back else maps.translate
    answer = asked(lane, offset)
    if answer.how is How.UNREAD:
        await maps.recall(lane, [answer.block])
        answer = asked(lane, offset)
    return answer


def _reading_again(place: SourcePlace, again: int) -> SourcePlace:
    """Return a place at which a group reads so many offsets again, when they are copied."""
    if not again:
        return place
    reason = PlaceReason.REPEATS if place.reason is PlaceReason.EXACT else place.reason
    return msgspec.structs.replace(place, repeats=place.repeats + again, reason=reason)


def _is_behind(row: MovedPartition, stored: Mapping[TopicPartition, int], made: Collection[TopicPartition]) -> bool:
    """Whether a group must be moved: never back, except where a commit is one of a topic that is gone."""
    now = stored.get(row.where, -1)
    return row.offset >= 0 and row.offset != now if row.where in made else row.offset > now

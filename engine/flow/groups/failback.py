"""Moves groups back to the source: translates their progress on the target to source offsets, by the exact maps.

A group may have read all copied records, and perhaps records that exist only on the target. Its source offset is then
the end of what was copied.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal
from engine.core.offset_map.map_runs import MapHead
from engine.core.offset_map.offset_map import How, Translation
from engine.flow.groups.status import selected
from engine.flow.groups.translations import said, with_reason
from engine.flow.ports.ports import Groups, Offsets, Stored
from policies.groups import GroupSelection, GroupState, Why, barred, wanted
from policies.model import TopicPartition

BEHIND_COPY = "behind the copy"
"""The value of `how` for a target offset after all copied records."""
_SAID = {
    Why.NEW: "nothing is committed on the source",
    Why.MOVED_ON: "the group moved on",
    Why.EQUAL: "equal",
    Why.TARGET_AHEAD: "the source's offset is ahead",
    Why.ASKED: "asked to go back",
    Why.ACTIVE: "the group has members on the source",
}


class FailbackMaps(Protocol):
    """The exact maps of lanes, from target offset to source offset."""

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """Read all that was written about these lanes until now. Raises ConnectionLost, BrokerUnreachable."""

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        """Answer from memory; UNREAD names a block to `recall`."""

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory."""

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends; None if it is not known."""

    @property
    def without_stints(self) -> str:
        """Why earlier stints could not be asked; empty if they were."""


class FailbackRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a group, named by its source; -1 if there is none. `why`: the reason for the decision.

    `committed`: the offset that was just committed on the source; -1: none. `before`: the offset committed before that.
    """

    group: str
    topic: str
    partition: int
    target_offset: int
    source_offset: int
    stored: int
    how: str
    why: str
    commits: bool
    before: int = -1
    committed: int = -1

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do: exactly this offset is committed on the source."""
        return self.source_offset >= 0 and self.stored == self.source_offset


class Failback:
    """The failback of one flow's groups; `lanes`: the lane of each target partition."""

    def __init__(
        self,
        selection: GroupSelection,
        lanes: Mapping[TopicPartition, TopicPartition],
        maps: FailbackMaps,
        source: Groups,
        target: Groups,
        *,
        backwards: bool = False,
    ) -> None:
        self._selection = selection
        self._lanes = lanes
        self._maps = maps
        self._source, self._target = source, target
        self._backwards = backwards

    async def read(self) -> tuple[list[FailbackRow], dict[str, str]]:
        """Return a row for every partition, and the groups that could not be read, with why.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        groups, _, unheard = await selected(self._target, self._selection)
        commits = await self._target.offsets(groups, stable=True)
        ours = {group: self._ours(offsets) for group, offsets in commits.found.items()}
        names = [group for group, offsets in ours.items() if offsets]
        await self._maps.follow({self._lanes[one] for group in names for one in ours[group]})
        states, stored = await self._source.states(names), await self._source.offsets(names)
        rows: list[FailbackRow] = []
        for group in names:
            if group in states.found and group in stored.found:
                for where, (offset, _) in sorted(ours[group].items()):
                    rows.append(await self._row(group, where, offset, stored.found[group], states.found[group]))
        return rows, unheard | commits.failed | states.failed | stored.failed

    def _ours(self, offsets: Offsets) -> Offsets:
        return {where: one for where, one in offsets.items() if where in self._lanes}

    async def _row(
        self, group: str, where: TopicPartition, offset: int, stored: Offsets, state: GroupState
    ) -> FailbackRow:
        lane = self._lanes[where]
        source_offset, how = await self._source_of(lane, offset)
        known = stored[lane][0] if lane in stored else None
        why, commits = how, False
        if source_offset >= 0:
            verdict = wanted(
                known,
                offset,
                source_offset,
                None,
                age_s=0.0,
                renew_after_s=float("inf"),
                backwards=self._backwards,
            )
            if verdict.commits:
                verdict = barred(state) or verdict
            why, commits = _SAID[verdict], verdict.commits
        return FailbackRow(
            group=group,
            topic=lane.topic,
            partition=lane.partition,
            target_offset=offset,
            source_offset=source_offset,
            stored=-1 if known is None else known,
            how=how,
            why=why,
            commits=commits,
        )

    async def _source_of(self, lane: TopicPartition, offset: int) -> tuple[int, str]:
        answer = self._maps.source_of(lane, offset)
        if answer.how is How.UNREAD:
            await self._maps.recall(lane, [answer.block])
            answer = self._maps.source_of(lane, offset)
        head = self._maps.head(lane)
        if answer.how is How.BEYOND and head is not None:
            return head.source_next, BEHIND_COPY
        why = self._maps.without_stints
        return answer.offset, with_reason(said(answer, lacks_stints=bool(why)), why)

    async def apply(self, rows: Sequence[FailbackRow]) -> tuple[list[FailbackRow], dict[str, str]]:
        """Commit on the source what `look` decided; return the committed rows, and the failed groups with why."""
        wishes: dict[str, dict[TopicPartition, Stored]] = {}
        for row in rows:
            if row.commits:
                wishes.setdefault(row.group, {})[TopicPartition(row.topic, row.partition)] = row.source_offset, ""
        done: set[tuple[str, TopicPartition]] = set()
        failed: dict[str, str] = {}
        for group, offsets in wishes.items():
            try:
                refused = await self._source.commit(group, offsets)
            except GroupActive:
                failed[group] = _SAID[Why.ACTIVE]
            except (BrokerUnreachable, ConnectionLost, KafkaRefusal) as failure:
                failed[group] = str(failure)
            else:
                done |= {(group, lane) for lane in offsets.keys() - refused.keys()}
                if refused:
                    failed[group] = "; ".join(f"commit of {where}: {why}" for where, why in list(refused.items())[:3])
        committed = [
            msgspec.structs.replace(row, before=row.stored, committed=row.source_offset)
            for row in rows
            if _key(row) in done
        ]
        return committed, failed


def with_commits(rows: Sequence[FailbackRow], committed: Sequence[FailbackRow]) -> list[FailbackRow]:
    """Note in rows of a later `look` what `apply` committed; add committed rows that the later `look` lacks."""
    ours = {_key(row): row for row in committed}
    found = [
        msgspec.structs.replace(row, before=ours[_key(row)].before, committed=ours[_key(row)].committed)
        if _key(row) in ours
        else row
        for row in rows
    ]
    seen = {_key(row) for row in rows}
    return found + [row for key, row in ours.items() if key not in seen]


def _key(row: FailbackRow) -> tuple[str, TopicPartition]:
    return row.group, TopicPartition(row.topic, row.partition)

"""Moves one consumer group to the target for good, for `raymirror move`: checks, exact commit, read back, stored.

    look twice -> refuse or wait for exact offsets -> store `moving` -> commit -> read back -> store `moved`

A move that was killed in between is repeated: it commits the same offsets again.
"""

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.ports.ports import GroupListing
from engine.flow.topic_logs.unowned_log import UnownedLog
from engine.kafka.admin.internal_topics import STATE_CONFIGS, ensure_internal_topic
from engine.services.translate import GroupTranslator, Translated, TranslationRow
from engine.state.state import MOVE_SCOPE, MOVED, MovedGroup, MovedOffset, moved_key, state_topic
from policies.dr.moving import (
    MoveRefusal,
    MoveRefusalName,
    MovingGroup,
    MovingOffset,
    refused_group,
    refused_offsets,
)
from policies.groups import GroupState
from policies.model import TopicPartition

WATCH_S = 6.0
"""Seconds between two looks at the commits of a group: consumers commit every five seconds by default."""
_AGAIN_S = 0.5


class MoveWish(msgspec.Struct, frozen=True, kw_only=True):
    """How to move. `commits`: false only looks; `within_s`: how long the copy may take to reach the group's offsets."""

    commits: bool = True
    leaves_uncopied: bool = False
    within_s: float = 60.0


class MoveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group. `refused`: why it was not moved, empty if it was, or if it only would be."""

    flow: str
    group: str
    moved: bool
    refused: tuple[MoveRefusal, ...] = ()
    offsets: tuple[MovingOffset, ...] = ()


class MovedStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A group that was moved, as it stands now; `source_moved`: partitions that it has consumed on the source since."""

    group: str
    state: str
    at_ms: int
    who: str
    partitions: int
    source_state: str
    target_state: str
    source_moved: int


class GroupMover(GroupTranslator):
    """The move of one group, over connections of its own, as an async context. Raises as `GroupTranslator` does.

    `who`: who moves it. `backwards`: also where the group stands further on the target.
    """

    def __init__(
        self, config: MirrorConfig, flow: FlowConfig, group: str, *, who: str = "", backwards: bool = False
    ) -> None:
        super().__init__(config, flow, group, backwards=backwards)
        self._backwards, self._who = backwards, who
        self._moves = UnownedLog(self._cluster, flow.name, MOVE_SCOPE, flow.request_timeout_s)

    async def _close(self) -> None:
        await self._moves.close()
        await super()._close()

    async def move(self, wish: MoveWish) -> MoveOutcome:
        """Move the group, or say why not. The source must answer (`gone` is empty).

        Raises GroupFailed, ConnectionLost, BrokerUnreachable, KafkaRefusal; then the stored state says how far it came.
        """
        refused = refused_group(await self._looked())
        if refused:
            return self._outcome(refused)
        found = await self._translated(wish.within_s)
        rows = tuple(map(_moving, found.rows))
        refused = [one for one in refused_offsets(rows, leaves_uncopied=wish.leaves_uncopied) if self._counts(one)]
        if refused or not wish.commits:
            return self._outcome(refused, rows)
        await self._store("moving", rows)
        found = await self.translate(apply=True, stable=True)
        rows = tuple(map(_moving, found.rows))
        if not found.equal:
            state = "it got members meanwhile" if found.target_state == GroupState.ACTIVE.value else "see: translate"
            why = f"the target has not taken all offsets ({state}); run the move again"
            return self._outcome([MoveRefusal(MoveRefusalName.NOT_COMMITTED, why)], rows)
        await self._store("moved", rows)
        return self._outcome([], rows, moved=True)

    def _counts(self, refusal: MoveRefusal) -> bool:
        return not (self._backwards and refusal.name is MoveRefusalName.AHEAD)

    def _outcome(
        self, refused: list[MoveRefusal], rows: tuple[MovingOffset, ...] = (), *, moved: bool = False
    ) -> MoveOutcome:
        flow = str(self._flow.name)
        return MoveOutcome(flow=flow, group=self._group, moved=moved, refused=tuple(refused), offsets=rows)

    async def _looked(self) -> MovingGroup:
        """Look at the group twice, so that commits without members are noticed."""
        listed = {one.group: one for one in (await self._source.list_groups()).groups}
        listing = listed.get(self._group, GroupListing(self._group, "consumer"))
        before = await self._commits_on_source()
        await pause(WATCH_S)
        return MovingGroup(
            group=self._group,
            protocol_type=listing.protocol_type,
            kind=listing.kind,
            source=await self._ask(self._source.states([self._group])),
            target=await self._ask(self._target.states([self._group])),
            before=before,
            after=await self._commits_on_source(),
            topics=frozenset((await self._clients[0].metadata(None)).topics),
        )

    async def _commits_on_source(self) -> dict[TopicPartition, int]:
        found = await self._ask(self._source.offsets([self._group]))
        return {lane: offset for lane, (offset, _) in found.items()}

    async def _translated(self, within_s: float) -> Translated:
        """Translate until every copied partition has an exact offset, or time is up."""
        give_up_at_s = now_s() + within_s
        while True:
            found = await self.translate(stable=True)
            if (found.answered and found.exact) or now_s() >= give_up_at_s:
                return found
            await pause(_AGAIN_S)

    async def _store(self, state: str, rows: tuple[MovingOffset, ...]) -> None:
        name = self._flow.name
        if not await self._moves.exists():
            replicas = self._flow.positions_replication_factor
            await ensure_internal_topic(self._clients[1], state_topic(name.source), replicas, STATE_CONFIGS)
        offsets = tuple(
            MovedOffset(row.topic, row.partition, row.source_offset, row.target_topic, row.target_offset)
            for row in rows
            if row.is_copied
        )
        entry = MovedGroup(
            state="moved" if state == "moved" else "moving", at_ms=wall_ms(), who=self._who, offsets=offsets
        )
        await self._moves.put({moved_key(self._group): entry})

    async def moved(self) -> tuple[MovedStanding, ...]:
        """Return all groups of the flow that were moved, as they stand now. Raises as `move` does."""
        if not await self._moves.exists():
            return ()
        entries = await self._moves.entries()
        moved = {
            key.subject: one
            for key, one in sorted(entries.items(), key=lambda row: row[0].subject)
            if key.kind == MOVED and isinstance(one, MovedGroup)
        }
        commits = await self._source.offsets(list(moved))
        here, there = await self._source.states(list(moved)), await self._target.states(list(moved))
        found: list[MovedStanding] = []
        for group, one in moved.items():
            at = {lane: offset for lane, (offset, _) in commits.found.get(group, {}).items()}
            gone_on = sum(
                at.get(TopicPartition(row.topic, row.partition), -1) > row.source_offset for row in one.offsets
            )
            found.append(
                MovedStanding(
                    group=group,
                    state=one.state,
                    at_ms=one.at_ms,
                    who=one.who,
                    partitions=len(one.offsets),
                    source_state=_text(here.found.get(group)),
                    target_state=_text(there.found.get(group)),
                    source_moved=gone_on,
                )
            )
        return tuple(found)


def _lane(row: MovedOffset) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)


def _text(state: GroupState | None) -> str:
    return "unknown" if state is None else state.value


def _moving(row: TranslationRow) -> MovingOffset:
    return MovingOffset(
        topic=row.topic,
        partition=row.partition,
        source_offset=row.source_offset,
        target_topic=row.target_topic,
        target_offset=row.target_offset,
        stored=row.stored,
        is_copied=row.mirrored,
        is_exact=row.exact,
        why_not=row.why_not,
    )

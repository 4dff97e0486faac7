"""Moves one consumer group to the target for good, for `raymirror move`: checks, exact commit, read back, stored.

    look twice -> refuse or wait for exact offsets -> store `moving` -> commit -> read back -> store `moved`

A move that was killed in between is repeated: it commits the same offsets again. If copies have a prefix, the group
also gets a start in the topics that producers will write to, where it has none.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.translated import Translated, TranslationRow
from engine.flow.ports.ports import LATEST, GroupListing
from engine.services.dr.move_log import MoveLog, start_of
from engine.services.dr.moves.hook import MoveHook, MovePhase, addresses_of
from engine.services.dr.moves.steps import ends_of
from engine.services.dr.moves.survey import WATCH_S
from engine.services.dr.switchover.world import DrainedEnd, DrainWorld
from engine.services.translate import GroupFailed, GroupTranslator
from engine.state.state import MovedGroup, MovedOffset, MovedTopic
from policies.dr.moving import (
    MoveRefusal,
    MoveRefusalName,
    MovingGroup,
    MovingOffset,
    refused_group,
    refused_offsets,
    refused_undo,
    state_folders,
)
from policies.groups import GroupState
from policies.model import TopicPartition
from policies.words import some_of

_AGAIN_S = 0.5


class MoveWish(msgspec.Struct, frozen=True, kw_only=True):
    """How to move. `commits`: false only looks; `within_s`: how long the copy may take to reach the group's offsets.

    `repeats`: an offset before the exact one will do. `watch_s`: seconds between two looks at the group's commits.
    """

    commits: bool = True
    leaves_uncopied: bool = False
    repeats: bool = False
    within_s: float = 60.0
    watch_s: float = WATCH_S


class MoveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group. `refused`: why it was not moved, empty if it was, or if it only would be.

    `internal_topics`: those of a Streams application, which have moved with it. `starts`: topics that producers will
    write to where the group got a start. `advice`: what the team of the application must do. `undone`: it went back.
    """

    flow: str
    group: str
    moved: bool
    refused: tuple[MoveRefusal, ...] = ()
    offsets: tuple[MovingOffset, ...] = ()
    internal_topics: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    undone: bool = False


class GroupMover(GroupTranslator):
    """The move of one group, over connections of its own, as an async context. Raises as `GroupTranslator` does.

    `who`: who moves it. `backwards`: also where the group stands further on the target.
    """

    def __init__(
        self, config: MirrorConfig, flow: FlowConfig, group: str, *, who: str = "", backwards: bool = False
    ) -> None:
        super().__init__(config, flow, group, backwards=backwards)
        self._config, self._backwards, self._who = config, backwards, who
        self._moves = MoveLog(self._cluster, self._clients[1], flow)
        self._hook = MoveHook(config, flow)

    async def move(self, wish: MoveWish) -> MoveOutcome:
        """Move the group, or say why not. The source must answer (`gone` is empty).

        Raises GroupFailed, ConnectionLost, BrokerUnreachable, KafkaRefusal; then the stored state says how far it came.
        """
        if wish.commits:
            await self._hook.call(MovePhase.BEFORE, (), group=self._group)
        looked = await self._looked(wish.watch_s)
        refused = refused_group(looked)
        if refused:
            return self._outcome(refused)
        internal = looked.internal
        refused, ends = await self._uncopied(internal, wish.within_s)
        if refused:
            return self._outcome(refused)
        found = await self._translated(wish)
        rows = self._moving(found)
        wanted = refused_offsets(rows, leaves_uncopied=wish.leaves_uncopied, repeats=wish.repeats)
        refused = [one for one in wanted if self._counts(one)]
        if refused or not wish.commits:
            return self._outcome(refused, rows, internal=internal)
        before = (await self._moves.read()).groups.get(self._group)
        if before is None or not before.has_moved:  # else the mirror would take the group again if this is killed
            await self._store("moving", rows)
        found = await self.translate(apply=True, stable=True)
        rows = self._moving(found)
        if not found.equal:
            state = "it got members meanwhile" if found.target_state == GroupState.ACTIVE.value else "see: translate"
            why = f"the target has not taken all offsets ({state}); run the move again"
            return self._outcome([MoveRefusal(MoveRefusalName.NOT_COMMITTED, why)], rows)
        starts = await self._start(rows)
        await self._hook.call(MovePhase.AFTER, _topics(rows), group=self._group)
        await self._moves.put_topics({name: self._with_it(name, ends) for name in internal})
        await self._store("moved", rows)
        return self._outcome([], rows, moved=True, internal=internal, starts=starts)

    def _counts(self, refusal: MoveRefusal) -> bool:
        return not (self._backwards and refusal.name is MoveRefusalName.AHEAD)

    def _moving(self, found: Translated) -> tuple[MovingOffset, ...]:
        return tuple(
            _moving(row, self._translations.begins(TopicPartition(row.topic, row.partition))) for row in found.rows
        )

    def _outcome(
        self,
        refused: list[MoveRefusal],
        rows: tuple[MovingOffset, ...] = (),
        *,
        moved: bool = False,
        internal: tuple[str, ...] = (),
        starts: tuple[str, ...] = (),
    ) -> MoveOutcome:
        return MoveOutcome(
            flow=str(self._flow.name),
            group=self._group,
            moved=moved,
            refused=tuple(refused),
            offsets=rows,
            internal_topics=internal,
            starts=starts,
            advice=() if refused else tuple(self._advice(rows, internal)),
        )

    def _advice(self, rows: tuple[MovingOffset, ...], internal: tuple[str, ...]) -> Iterator[str]:
        name = self._flow.name
        addresses = addresses_of(self._config.clusters[name.target].bootstrap)
        yield f"start its consumers on cluster {name.target!r}: bootstrap.servers = {addresses}"
        others = sorted({(row.topic, row.target_topic) for row in rows if row.target_topic not in ("", row.topic)})
        if others:
            names = ", ".join(f"{copy} and {topic}" for topic, copy in others)
            yield f"there they subscribe to {names}: the copies, and what producers will write to"
        if internal:
            yield state_folders(self._group)
            yield (
                f"its topics {', '.join(internal)} belong to the target from its start there on: pause them before"
                f" (raymirror pause '{name}' --topics ...), or add them to topics.exclude"
            )

    async def _looked(self, watch_s: float) -> MovingGroup:
        """Look at the group twice, so that commits without members are noticed."""
        listed = {one.group: one for one in (await self._source.list_groups()).groups}
        listing = listed.get(self._group, GroupListing(self._group, "consumer"))
        if listing.kind in ("share", "streams"):
            return self._of_other_kind(listing)
        before = await self._commits_on_source()
        await pause(watch_s)
        topics = frozenset((await self._clients[0].metadata(None)).topics)
        return MovingGroup(
            group=self._group,
            protocol_type=listing.protocol_type,
            kind=listing.kind,
            source=await self._ask(self._source.states([self._group])),
            target=await self._ask(self._target.states([self._group])),
            before=before,
            after=await self._commits_on_source(),
            topics=topics,
            copied=frozenset(filter(self._flow.selection.wants, topics)),
            others=frozenset(listed),
            keeps_names=not self._flow.naming.shows_source,
        )

    def _of_other_kind(self, listing: GroupListing) -> MovingGroup:
        """Return a group that has no commits that could be read, and is refused by its kind."""
        return MovingGroup(
            group=self._group,
            kind=listing.kind,
            source=GroupState.ACTIVE,
            target=GroupState.ABSENT,
            before={},
            after={},
        )

    async def _uncopied(
        self, internal: tuple[str, ...], within_s: float
    ) -> tuple[list[MoveRefusal], tuple[DrainedEnd, ...]]:
        """Wait until the topics of a Streams application are copied whole, or time is up.

        Return why they are not, and where they end on the source.
        """
        if not internal:
            return [], ()
        give_up_at_s = now_s() + within_s
        async with DrainWorld(self._config, self._flow) as world:
            about = world.about(internal)
            while True:
                why, ends = await about.undrained()
                if not why:
                    return [], ends
                if now_s() >= give_up_at_s:
                    text = f"its changelog and repartition topics are not copied whole: {some_of(why)}"
                    return [MoveRefusal(MoveRefusalName.INTERNAL, text)], ends
                await pause(_AGAIN_S)

    def _with_it(self, topic: str, ends: tuple[DrainedEnd, ...]) -> MovedTopic:
        """Return the entry of a topic that only the group writes to, so that it has moved with the group."""
        return MovedTopic(at_ms=wall_ms(), who=self._who, operation=self._own_move, ends=ends_of(topic, ends))

    @property
    def _own_move(self) -> str:
        return f"move of group {self._group}"

    async def _commits_on_source(self) -> dict[TopicPartition, int]:
        found = await self._ask(self._source.offsets([self._group]))
        return {lane: offset for lane, (offset, _) in found.items()}

    async def _translated(self, wish: MoveWish) -> Translated:
        """Translate until every copied partition has an exact offset, or time is up."""
        give_up_at_s = now_s() + wish.within_s
        while True:
            found = await self.translate(stable=True)
            if (found.answered and (found.exact or wish.repeats)) or now_s() >= give_up_at_s:
                return found
            await pause(_AGAIN_S)

    async def _start(self, rows: tuple[MovingOffset, ...]) -> tuple[str, ...]:
        """Commit a start in the topics that producers will write to, where the group has none; return these topics.

        Producers that have moved began at a stored offset; before that, everything there is somebody else's.
        """
        topics = sorted({row.topic for row in rows if row.is_copied and row.target_topic != row.topic})
        if not topics:
            return ()
        known = (await self._clients[1].metadata(topics)).topics
        lanes = [TopicPartition(name, number) for name in topics if name in known for number in known[name].partitions]
        stored = await self._ask(self._target.offsets([self._group]))
        missing = [lane for lane in lanes if lane not in stored]
        if not missing:
            return ()
        moved = (await self._moves.read()).topics
        ends = await self._cluster.offsets(missing, LATEST)
        starts = {lane: (start_of(moved.get(lane.topic), lane.partition, ends[lane]), "") for lane in missing}
        refused = await self._target.commit(self._group, starts)
        if refused:
            lane, why = next(iter(refused.items()))
            raise GroupFailed(self._group, f"its start in {lane} was not committed: {why}")
        return tuple(sorted({lane.topic for lane in starts}))

    async def _store(self, state: Literal["moving", "moved"], rows: tuple[MovingOffset, ...]) -> None:
        offsets = tuple(
            MovedOffset(row.topic, row.partition, row.source_offset, row.target_topic, row.target_offset)
            for row in rows
            if row.is_copied
        )
        repeats = any(row.is_copied and not row.is_exact for row in rows)
        entry = MovedGroup(state=state, at_ms=wall_ms(), who=self._who, offsets=offsets, repeats=repeats)
        await self._moves.put_group(self._group, entry)

    async def undo(self) -> MoveOutcome:
        """Take the move of the group back, or say why not: its consumers start on the source again.

        Raises as `move` does.
        """
        moves = await self._moves.read()
        entry = moves.groups.get(self._group)
        if entry is None:
            return self._outcome([MoveRefusal(MoveRefusalName.NOT_MOVED, "it has not moved")])
        rows = self._moving(await self.translate())
        state = await self._ask(self._target.states([self._group]))
        own = {name for name, one in moves.topics.items() if one.operation == self._own_move}
        moved = {row.topic for row in entry.offsets} & moves.topics.keys() - own
        refused = refused_undo(rows, state, moved)
        if refused:
            return self._outcome(refused, rows)
        await self._hook.call(MovePhase.UNDONE, _topics(rows), group=self._group)
        await self._moves.remove_topics(own)
        await self._moves.remove_group(self._group)
        return MoveOutcome(flow=str(self._flow.name), group=self._group, moved=False, offsets=rows, undone=True)


def _topics(rows: tuple[MovingOffset, ...]) -> list[str]:
    return sorted({row.topic for row in rows if row.is_copied})


def _moving(row: TranslationRow, exact_from: int) -> MovingOffset:
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
        exact_from=exact_from,
        skips=row.skips,
    )

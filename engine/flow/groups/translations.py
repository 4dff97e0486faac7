"""Translates committed offsets to the target: by the exact offset maps, checked against the target's log.

An answer above the target's high watermark is dropped: the target has lost records, and the lane will copy them again.
An answer below the log start is moved up to it: retention deleted the record, so a consumer starts at the first record
that is left, and an event reports this.

The maps are followed once more after the target's ends were read. An owner that finds records lost starts a new map
generation before it appends after the loss. So while the generation is the same, the records below the end are those
that the answer was made for, and not others that were appended in their place.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from engine.base.clock import pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.core.offset_map.map_runs import MapHead
from engine.core.offset_map.offset_map import CLAMPED, NEAR, How, Translation
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster, Offsets
from policies.model import TopicPartition
from policies.selection import TopicSelection

ABOVE_END = "above the target's end"
NO_TARGET = "target partition not reachable"
UNREAD_STINTS = "the offset map begins later, and those of earlier stints cannot be read"
"""Why an offset before the map has no answer for now; `Translations.without_stints` says more."""
_UNREACHABLE = (ConnectionLost, BrokerUnreachable)
_BREATH = 100
"""Groups handled in a row, which takes some milliseconds; then other tasks of this event loop get their turn."""


class FollowedMaps(Protocol):
    """The exact maps of lanes, named by their source partitions, as a reader follows them."""

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """Read all that was written about these lanes until now. Raises ConnectionLost, BrokerUnreachable."""

    def begun(self, lane: TopicPartition) -> bool:
        """Whether raymirror's copiers have, or may have, written a map of a lane; its head may be unknown just now."""

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory; they stay for the translations that follow at once."""

    @property
    def generations(self) -> int:
        """A number that grows whenever a known lane changes to another generation."""

    @property
    def away(self) -> Mapping[int, str]:
        """Brokers of the target that the last `follow` could not reach, and why: their lanes are STALE."""

    @property
    def size_bytes(self) -> int:
        """The memory of all maps in bytes; counts only runs and anchors."""


class Maps(FollowedMaps, Protocol):
    """Maps that translate offsets."""

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Answer from memory; UNREAD names a block to `recall`; STALE: nothing is known about the lane."""

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends; None if it is not known."""

    def begins(self, lane: TopicPartition) -> int:
        """Return the first source offset that the map of a lane answers; -1 if it is not known."""

    @property
    def without_stints(self) -> str:
        """Why offsets before the present stint have no answer although earlier stints may know them; else empty."""


def said(answer: Translation, *, lacks_stints: bool) -> str:
    """Return how an offset was found, or why not; `lacks_stints`: earlier stints could not be asked."""
    return UNREAD_STINTS if answer.how is How.BEFORE and lacks_stints else answer.how.value


def with_reason(how: str, without_stints: str) -> str:
    """Return how an offset was found, or why not, with the reason if earlier stints could not be asked."""
    return f"{how}: {without_stints}" if how == UNREAD_STINTS else how


class Near(Protocol):
    """Approximate answers for offsets that the exact map does not cover."""

    async def follow(self) -> None:
        """Read all that was written until now. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""

    def translate(self, lane: TopicPartition, source_offset: int) -> int:
        """Return a target offset at or before the true one; -1 if nothing is known."""


class EndOfCopy(NamedTuple):
    """Where the copy of a lane ends: the same place on both sides."""

    source: int
    target: int


class TranslatedOffset(NamedTuple):
    """One committed offset of a group, and its target `offset`: -1 if there is none, and `how` says why.

    `end`: for an offset that is not copied yet, the end of the copy: the group has read everything before it.
    """

    lane: TopicPartition
    target: TopicPartition
    source_offset: int
    offset: int
    how: str
    metadata: str = ""
    end: EndOfCopy | None = None

    @property
    def exact(self) -> bool:
        """Whether the answer is the exact offset, or the nearest one that the target's log still holds."""
        return self.how != NEAR


class Translations:
    """Translates the commits of groups, thousands at a time; one read of maps and ends serves them all."""

    def __init__(self, selection: TopicSelection, maps: Maps, target: Cluster, near: Near | None = None) -> None:
        self._selection = selection
        self._maps = maps
        self._near = near
        self._target = target
        self._targets: dict[TopicPartition, TopicPartition | None] = {}
        self._ends: dict[TopicPartition, tuple[int, int]] = {}

    @property
    def generations(self) -> int:
        """A number that grows whenever a lane has a new owner, whose findings may change earlier answers."""
        return self._maps.generations

    @property
    def away(self) -> Mapping[int, str]:
        """Brokers of the target that could not be read from, and why."""
        return self._maps.away

    @property
    def map_bytes(self) -> int:
        """The memory of the maps in bytes."""
        return self._maps.size_bytes

    @property
    def without_stints(self) -> str:
        """Why earlier stints could not be asked, as of the last `places`; empty if they were."""
        return self._maps.without_stints

    def begins(self, lane: TopicPartition) -> int:
        """Return the first source offset of a lane with an exact answer, as of the last `places`; -1: not known."""
        return self._maps.begins(lane)

    async def places(self, commits: Mapping[str, Offsets]) -> dict[str, list[TranslatedOffset]]:
        """Translate the commits of groups; partitions that the flow does not copy are left out.

        Raises ConnectionLost, BrokerUnreachable.
        """
        lanes = {lane for offsets in commits.values() for lane in offsets if self._target_of(lane) is not None}
        await self._maps.follow(lanes)
        generations = {lane: self._generation(lane) for lane in lanes}
        await self._look_at_ends(lanes)  # after the maps, so that no end is older than an answer
        unread: dict[TopicPartition, list[tuple[list[TranslatedOffset], int, int]]] = {}
        before: list[tuple[list[TranslatedOffset], int]] = []
        found: dict[str, list[TranslatedOffset]] = {}
        place = self._place
        for number, (group, offsets) in enumerate(commits.items()):
            if number % _BREATH == 0:
                await pause(0.0)
            rows = found[group] = []
            for lane, (offset, metadata) in offsets.items():
                if self._targets[lane] is None:
                    continue
                answer = self._maps.translate(lane, offset)
                if answer.how is How.UNREAD:
                    unread.setdefault(lane, []).append((rows, len(rows), answer.block))
                elif answer.how is How.BEFORE or (answer.how is How.STALE and not self._maps.begun(lane)):
                    before.append((rows, len(rows)))
                rows.append(place(lane, offset, metadata, answer))
        for lane, missing in unread.items():
            await self._recall(lane, missing)
        if before and self._near is not None:
            await self._approximate(self._near, before)
        await self._take_back(generations, found)
        return found

    def _generation(self, lane: TopicPartition) -> int | None:
        head = self._maps.head(lane)
        return None if head is None else head.generation

    async def _take_back(
        self, generations: Mapping[TopicPartition, int | None], found: Mapping[str, list[TranslatedOffset]]
    ) -> None:
        """Take back the answers of lanes whose owner has changed since the answers were given.

        An owner that follows another one may have found records lost. A first owner has written offset syncs by now,
        and near answers from those do not count if the lane has a map.
        """
        if generations:
            await self._maps.follow(generations)
        begun = {lane for lane, before in generations.items() if before is None and self._maps.begun(lane)}
        moved = {lane for lane, before in generations.items() if before not in (None, self._generation(lane))}
        for rows in found.values() if begun or moved else ():
            rows[:] = [
                place._replace(offset=-1, how=How.STALE.value, end=None)
                if place.lane in begun or (place.lane in moved and place.exact)
                else place
                for place in rows
            ]

    async def _approximate(self, near: Near, before: list[tuple[list[TranslatedOffset], int]]) -> None:
        """Answer for offsets below the exact maps; no answer if `near` cannot be read."""
        try:
            await near.follow()
        except (*_UNREACHABLE, KafkaRefusal):
            return
        for rows, at in before:
            place = rows[at]
            offset = near.translate(place.lane, place.source_offset)
            if offset >= 0:
                rows[at] = self._within(place._replace(offset=offset, how=NEAR))

    async def _recall(self, lane: TopicPartition, missing: list[tuple[list[TranslatedOffset], int, int]]) -> None:
        """Read blocks back one after the other, and translate the offsets of each while it is in memory."""
        by_block: dict[int, list[tuple[list[TranslatedOffset], int]]] = {}
        for rows, at, block in missing:
            by_block.setdefault(block, []).append((rows, at))
        for block, questions in by_block.items():
            await self._maps.recall(lane, [block])
            for rows, at in questions:
                asked = rows[at]
                answer = self._maps.translate(lane, asked.source_offset)
                rows[at] = self._place(lane, asked.source_offset, asked.metadata, answer)

    def _target_of(self, lane: TopicPartition) -> TopicPartition | None:
        """Return the target partition of a lane; None if the flow does not copy its topic."""
        if lane not in self._targets:
            wanted = self._selection.wants(lane.topic)
            topic = self._selection.target_topic(lane.topic)
            self._targets[lane] = TopicPartition(topic, lane.partition) if wanted else None
        return self._targets[lane]

    def _place(self, lane: TopicPartition, source_offset: int, metadata: str, answer: Translation) -> TranslatedOffset:
        target = self._targets[lane]
        assert target is not None
        how = said(answer, lacks_stints=bool(self._maps.without_stints))
        end = self._end_of_copy(lane, target) if answer.how is How.BEYOND else None
        return self._within(TranslatedOffset(lane, target, source_offset, answer.offset, how, metadata, end))

    def _end_of_copy(self, lane: TopicPartition, target: TopicPartition) -> EndOfCopy | None:
        """Return where the copy of a lane ends; None if it is not known, or not on the target any more."""
        head, ends = self._maps.head(lane), self._ends.get(target)
        if head is None or ends is None or not ends[0] <= head.target_next <= ends[1]:
            return None
        return EndOfCopy(head.source_next, head.target_next)

    def _within(self, place: TranslatedOffset) -> TranslatedOffset:
        """Check an answer against the target's log."""
        ends = self._ends.get(place.target)
        if ends is None:
            return place._replace(offset=-1, how=NO_TARGET)
        if place.offset > ends[1]:
            return place._replace(offset=-1, how=ABOVE_END)
        return place._replace(offset=ends[0], how=CLAMPED) if 0 <= place.offset < ends[0] else place

    def has_read_all(self, lane: TopicPartition, source_offset: int) -> bool:
        """Whether nothing is copied behind a source offset yet, so that no record is skipped whatever was deleted."""
        return self._maps.translate(lane, source_offset).how is How.END

    def lost(self, lane: TopicPartition, offset: int) -> MapHead | None:
        """Return where the copy of a lane ends, if an earlier answer `offset` is above the target's end; else None."""
        target, head = self._targets.get(lane), self._maps.head(lane)
        ends = self._ends.get(target) if target is not None else None
        if ends is None or head is None or not offset > ends[1] >= head.target_next:
            return None
        return head

    async def _look_at_ends(self, lanes: Collection[TopicPartition]) -> None:
        """Read log starts and high watermarks; a partition that cannot be asked about (NO_TARGET) fails alone."""
        targets = [target for lane in lanes if (target := self._target_of(lane)) is not None]
        self._ends = {}
        if not targets:
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        for one, leader in (await self._target.leaders(targets)).items():
            if leader.node >= 0:
                by_leader.setdefault(leader.node, []).append(one)
        await run_all(*(self._ask_leader(led) for led in by_leader.values()))

    async def _ask_leader(self, led: list[TopicPartition]) -> None:
        try:
            await self._ask_ends(led)
        except (*_UNREACHABLE, KafkaRefusal):
            for topic in sorted({one.topic for one in led}):
                await self._try_topic([one for one in led if one.topic == topic])

    async def _try_topic(self, targets: list[TopicPartition]) -> None:
        try:
            await self._ask_ends(targets)
        except (*_UNREACHABLE, KafkaRefusal):
            return  # each of its partitions is answered with NO_TARGET

    async def _ask_ends(self, targets: list[TopicPartition]) -> None:
        starts = await self._target.offsets(targets, EARLIEST)
        ends = await self._target.offsets(targets, LATEST)
        self._ends.update({one: (starts[one], ends[one]) for one in targets})

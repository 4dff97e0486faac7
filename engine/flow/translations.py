"""What committed offsets mean on the target: the exact maps asked, their answers held against the target's log.

An answer is never above the target's high watermark (it lost records then, and the lane will copy them again), and
never below its log start (retention has eaten what the answer points at: a consumer begins at what is left, which is
said). And the maps are followed once more after the target's ends were looked at: an owner that finds records lost
says so, in a new generation, before it appends behind the loss. So where the generation is still the same, what lies
below the end is what the answer was made for, and not another record that was appended in its place.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from engine.clock import pause
from engine.core.map_runs import MapHead
from engine.core.offset_map import CLAMPED, NEAR, How, Translation
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.ports import EARLIEST, LATEST, Cluster, Offsets
from engine.tasks import run_all
from policies.model import TopicPartition
from policies.selection import TopicSelection

ABOVE_END = "above the target's end"
NO_TARGET = "target partition not reachable"
_UNREACHABLE = (ConnectionLost, BrokerUnreachable)
_BREATH = 100
"""Groups in a row, some milliseconds: others live on this loop too."""


class Maps(Protocol):
    """The exact maps of lanes, named by their source partitions, as a reader follows them."""

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """Catch up with all that was told of these lanes until now. Raises ConnectionLost, BrokerUnreachable."""

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Answer from memory; UNREAD names a block to `recall`, STALE means that nothing is known of the lane."""

    def begun(self, lane: TopicPartition) -> bool:
        """Whether copiers of ours have told anything of a lane, or may have, though its head is not known just now."""

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory; they stay for the questions that follow at once."""

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends, None where that is not known."""

    @property
    def generations(self) -> int:
        """A number that grows whenever a lane that is known goes over to another generation."""

    @property
    def away(self) -> Mapping[int, str]:
        """Brokers of the target that could not be reached by the last `follow`, and why: their lanes are STALE."""

    @property
    def size_bytes(self) -> int:
        """The memory of all maps, as far as it is runs and anchors."""


class Near(Protocol):
    """Answers that are near, where the exact map does not reach."""

    async def follow(self) -> None:
        """Catch up. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""

    def translate(self, lane: TopicPartition, source_offset: int) -> int:
        """Return a target offset at or before the true one, -1 where nothing is known."""


class Place(NamedTuple):
    """One committed offset of a group, and what it is on the target: -1 where `how` is why there is no answer."""

    lane: TopicPartition
    target: TopicPartition
    source_offset: int
    offset: int
    how: str
    metadata: str = ""

    @property
    def exact(self) -> bool:
        """Whether an answer is the very place, or as near to it as the target's log still is."""
        return self.how != NEAR


class Translations:
    """Translates the commits of groups, thousands at a time; one question about maps and ends serves them all."""

    def __init__(self, selection: TopicSelection, maps: Maps, target: Cluster, near: Near | None = None) -> None:
        self._selection = selection
        self._maps = maps
        self._near = near
        self._target = target
        self._targets: dict[TopicPartition, TopicPartition | None] = {}
        self._ends: dict[TopicPartition, tuple[int, int]] = {}

    @property
    def generations(self) -> int:
        """A number that grows whenever a lane has a new owner: what it found may change answers given before."""
        return self._maps.generations

    @property
    def away(self) -> Mapping[int, str]:
        """Brokers of the target that could not be read from, and why."""
        return self._maps.away

    @property
    def map_bytes(self) -> int:
        """The memory of the maps."""
        return self._maps.size_bytes

    async def places(self, commits: Mapping[str, Offsets]) -> dict[str, list[Place]]:
        """Translate the commits of groups; partitions that the flow does not copy are left out.

        Raises ConnectionLost, BrokerUnreachable.
        """
        lanes = {lane for offsets in commits.values() for lane in offsets if self._target_of(lane) is not None}
        await self._maps.follow(lanes)
        generations = {lane: self._generation(lane) for lane in lanes}
        await self._look_at_ends(lanes)  # behind the maps, so that no end is older than an answer
        unread: dict[TopicPartition, list[tuple[list[Place], int, int]]] = {}
        before: list[tuple[list[Place], int]] = []
        found: dict[str, list[Place]] = {}
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
        self, generations: Mapping[TopicPartition, int | None], found: Mapping[str, list[Place]]
    ) -> None:
        """Take back the answers of lanes that have another owner by now than when they were given.

        Who follows another one may have found records lost. Who is the first has written syncs of his own by now, and
        those are no answer where there is a map.
        """
        if generations:
            await self._maps.follow(generations)
        begun = {lane for lane, before in generations.items() if before is None and self._maps.begun(lane)}
        moved = {lane for lane, before in generations.items() if before not in (None, self._generation(lane))}
        for rows in found.values() if begun or moved else ():
            rows[:] = [
                place._replace(offset=-1, how=How.STALE.value)
                if place.lane in begun or (place.lane in moved and place.exact)
                else place
                for place in rows
            ]

    async def _approximate(self, near: Near, before: list[tuple[list[Place], int]]) -> None:
        """Answer what lies below the exact maps; where that cannot be read, it stays without an answer."""
        try:
            await near.follow()
        except (*_UNREACHABLE, KafkaRefusal):
            return
        for rows, at in before:
            place = rows[at]
            offset = near.translate(place.lane, place.source_offset)
            if offset >= 0:
                rows[at] = self._within(place._replace(offset=offset, how=NEAR))

    async def _recall(self, lane: TopicPartition, missing: list[tuple[list[Place], int, int]]) -> None:
        """Read blocks back one after the other, and answer the questions to each while it is in memory."""
        by_block: dict[int, list[tuple[list[Place], int]]] = {}
        for rows, at, block in missing:
            by_block.setdefault(block, []).append((rows, at))
        for block, questions in by_block.items():
            await self._maps.recall(lane, [block])
            for rows, at in questions:
                asked = rows[at]
                answer = self._maps.translate(lane, asked.source_offset)
                rows[at] = self._place(lane, asked.source_offset, asked.metadata, answer)

    def _target_of(self, lane: TopicPartition) -> TopicPartition | None:
        """Return the target partition of a lane, None where the flow does not copy its topic."""
        if lane not in self._targets:
            wanted = self._selection.wants(lane.topic)
            topic = self._selection.target_topic(lane.topic)
            self._targets[lane] = TopicPartition(topic, lane.partition) if wanted else None
        return self._targets[lane]

    def _place(self, lane: TopicPartition, source_offset: int, metadata: str, answer: Translation) -> Place:
        target = self._targets[lane]
        assert target is not None
        return self._within(Place(lane, target, source_offset, answer.offset, answer.how.value, metadata))

    def _within(self, place: Place) -> Place:
        """Hold an answer against the target's log."""
        ends = self._ends.get(place.target)
        if ends is None:
            return place._replace(offset=-1, how=NO_TARGET)
        if place.offset > ends[1]:
            return place._replace(offset=-1, how=ABOVE_END)
        return place._replace(offset=ends[0], how=CLAMPED) if 0 <= place.offset < ends[0] else place

    def lost(self, lane: TopicPartition, offset: int) -> MapHead | None:
        """Return where the copy of a lane ends, where an offset told before lies above all that the target has."""
        target, head = self._targets.get(lane), self._maps.head(lane)
        ends = self._ends.get(target) if target is not None else None
        if ends is None or head is None or not offset > ends[1] >= head.target_next:
            return None
        return head

    async def _look_at_ends(self, lanes: Collection[TopicPartition]) -> None:
        """Ask for log start and high watermark; what cannot be asked about is without (NO_TARGET), not all of them."""
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
            return  # said of each of its partitions: NO_TARGET

    async def _ask_ends(self, targets: list[TopicPartition]) -> None:
        starts = await self._target.offsets(targets, EARLIEST)
        ends = await self._target.offsets(targets, LATEST)
        self._ends.update({one: (starts[one], ends[one]) for one in targets})

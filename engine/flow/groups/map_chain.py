"""Translates offsets by a chain of closed maps: those of the flow and its reverse, in turn, one per stint.

    stint 1  A -> B     A  |= 1 =|             B  |= 1 =|              a switchover ends each stint: the map is closed,
    stint 2  B -> A        |= 1 =|= 2 =|          |= 1 =|= 2 =|        and the other direction begins a new one behind
    stint 3  A -> B        |= 1 =|= 2 =|= 3 =|    |= 1 =|= 2 =|= 3 =|  what both clusters have

The map of a flow begins where its stint began. A group that stands before that, because it has read little since, is
placed by the map that copied the record which it reads next, whatever direction that was. It is exact because every
stint begins right where the one before it has ended: nothing but markers lies between. So an offset behind the records
of a stint is at the begin of the next one.

A failback begins a stint, too. Where it has kept what only one cluster had, both have the same records in another order
between the stints (`PartedOrder`). An offset in there has no answer: something before it was not read, on one cluster
or the other. What lies before that is in order on both, so the chain goes on.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from engine.base.clock import now_s
from engine.base.errors import MirrorError
from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.core.offset_map.offset_map import How, OffsetMap, Translation
from engine.flow.groups.translations import FollowedMaps
from policies.model import TopicPartition

_BEHIND = (How.END, How.BEYOND)
_ANSWERS = (How.RUN, How.REFINED)
_AGAIN_S, _PAUSES = 5.0, 9.0
"""Earlier stints that could not be read are read again after so many seconds, and so many times what it took: a source
that does not answer must not hold up every round."""


class ReadMaps(FollowedMaps, Protocol):
    """Maps of one direction, each as it is."""

    def map_of(self, lane: TopicPartition) -> OffsetMap | None:
        """Return the map of a lane, None if nothing is known of it."""

    def adopt(self, lane: TopicPartition, head: MapHead, start: MapStart) -> None:
        """Take the end of a closed map that no position has any more."""


class ClosedMap(msgspec.Struct, frozen=True, kw_only=True):
    """The map of a lane whose stint has ended."""

    head: MapHead
    start: MapStart

    def without_blocks(self) -> "ClosedMap":
        """Return the part that the head itself has: later stints overwrite blocks."""
        if not self.head.blocks:
            return self
        first = self.head.runs[0] if self.head.runs else None
        place = (self.head.source_next, self.head.target_next) if first is None else (first.source, first.target)
        return ClosedMap(head=msgspec.structs.replace(self.head, blocks=0), start=MapStart(*place, first=False))

    def made(self) -> OffsetMap:
        """Return the map, to ask."""
        found = OffsetMap()
        found.follow(self.head, self.start)
        return found


class PartedOrder(NamedTuple):
    """Where the order of records that both clusters have parts before a stint: on its source, and on its target."""

    source: int
    target: int


class LaneChain(msgspec.Struct, frozen=True, kw_only=True):
    """The earlier stints of one lane, the last one first.

    `back`: the lane of the reverse flow. `starts`: where this stint begins on its source, where the one before it began
    on its own, and so on. `parted`: where the order parts before some of these starts, by their number. `last`: the
    closed map of the last stint, which was the reverse flow's, if it is stored elsewhere than in its position.
    `earlier`: those of the stints before that: of this flow, of its reverse, and so on. `exact_from`,
    `exact_back_from`: the first offset behind records that were replayed, which lie in another order than on the other
    cluster: on our source, on our target.
    """

    back: TopicPartition
    starts: tuple[int, ...]
    parted: Mapping[int, PartedOrder] = {}
    last: ClosedMap | None = None
    earlier: tuple[ClosedMap, ...] = ()
    exact_from: int = 0
    exact_back_from: int = 0


class _ChainPart(msgspec.Struct, frozen=True):
    """A closed map. `is_back`: of the reverse flow, whose source is our target."""

    map: OffsetMap
    is_back: bool

    def ask(self, offset: int, *, backwards: bool) -> Translation:
        """Return the offset on our target for one on our source; `backwards`: on our source for one on our target."""
        return self.map.source_of(offset) if self.is_back is not backwards else self.map.translate(offset)

    @property
    def source_begin(self) -> int:
        """Where it begins on our source."""
        return self.begins(backwards=True)[1]

    def begins(self, *, backwards: bool) -> tuple[int, int]:
        """Return where it begins: on its own source, and on our target (`backwards`: on our source)."""
        start = self.map.begins
        assert start is not None, "a map that has answered has a start"
        return start.source, start.source if self.is_back is not backwards else start.target


class NotedMaps:
    """Closed maps that are known from notes alone (`ReadMaps`): others may have overwritten their blocks."""

    generations, size_bytes = 0, 0

    def __init__(self) -> None:
        self.away: Mapping[int, str] = {}
        self._maps: dict[TopicPartition, OffsetMap] = {}

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """See ReadMaps: there is nothing to read."""

    def map_of(self, lane: TopicPartition) -> OffsetMap | None:
        """See ReadMaps."""
        return self._maps.get(lane)

    def adopt(self, lane: TopicPartition, head: MapHead, start: MapStart) -> None:
        """See ReadMaps."""
        self._maps[lane] = ClosedMap(head=head, start=start).without_blocks().made()

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """See ReadMaps: there are no blocks."""

    def begun(self, lane: TopicPartition) -> bool:
        """See ReadMaps."""
        return lane in self._maps


class EarlierStints(NamedTuple):
    """The stints before the present one. `closed`: the maps of the reverse flow, which nothing copies."""

    closed: ReadMaps
    chains: Mapping[TopicPartition, LaneChain]


class StintsReader(Protocol):
    """Reads the stints before the present one."""

    async def read(self) -> EarlierStints:
        """Return them. Raises MirrorError; ValueError for what raymirror does not write."""


class KnownStints(NamedTuple):
    """Stints that are known already (`StintsReader`)."""

    closed: ReadMaps
    chains: Mapping[TopicPartition, LaneChain]

    async def read(self) -> EarlierStints:
        """See StintsReader."""
        return EarlierStints(*self)


NO_STINTS = KnownStints(NotedMaps(), {})
"""There was no switchover, or copies have other names than their topics, so that they lie in other logs."""


class ChainedMaps:
    """The maps of a flow, completed by the closed ones of earlier stints (`engine.flow.groups.translations.Maps`).

    `own`: of the flow. Blocks of its reverse have negative numbers here. Closed maps do not change, so they are read
    once. While they cannot be read, the flow's own maps answer alone. `within_s`: what one `follow` may take for them.
    """

    def __init__(self, own: ReadMaps, stints: StintsReader, *, within_s: float = 5.0) -> None:
        self._own, self._stints, self._within_s = own, stints, within_s
        self._closed, self._chains = NO_STINTS
        self._is_known = False
        self._followed: set[TopicPartition] = set()
        self._earlier: dict[TopicPartition, tuple[_ChainPart, ...]] = {}
        self._again_at_s = float("-inf")
        self.without_stints = ""
        """Why earlier stints could not be read; empty if they were."""

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        """Read all that was written about these lanes until now. Raises ConnectionLost, BrokerUnreachable."""
        await self._own.follow(lanes)
        began_s = now_s()
        if began_s < self._again_at_s or (self._is_known and not self._missing(lanes)):
            return
        try:
            async with asyncio.timeout(self._within_s):
                await self._follow_closed(lanes)
        except (MirrorError, OSError, TimeoutError, ValueError) as failure:
            self.without_stints = str(failure) or f"no answer within {self._within_s:.0f} s"
        else:
            self.without_stints = "; ".join(self._closed.away.values())
        if self.without_stints:
            self._again_at_s = now_s() + max(_AGAIN_S, _PAUSES * (now_s() - began_s))

    def _missing(self, lanes: Collection[TopicPartition]) -> list[TopicPartition]:
        return [lane for lane in lanes if lane in self._chains and lane not in self._followed]

    async def _follow_closed(self, lanes: Collection[TopicPartition]) -> None:
        if not self._is_known:
            self._closed, self._chains = await self._stints.read()
            self._is_known = True
        missing = self._missing(lanes)
        if not missing:
            return
        await self._closed.follow([self._chains[lane].back for lane in missing])
        if self._closed.away:
            return  # some of them are not known
        self._followed.update(missing)
        for one in (self._chains[lane] for lane in missing):
            known = self._closed.map_of(one.back)
            if one.last is not None and (known is None or known.head is None):
                self._closed.adopt(one.back, one.last.head, one.last.start)

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Answer from memory; UNREAD names a block to `recall`; STALE: nothing is known about the lane."""
        known, chain = self._own.map_of(lane), self._chains.get(lane)
        answer = Translation(How.STALE) if known is None else known.translate(source_offset)
        if known is None or answer.how is not How.BEFORE or chain is None or source_offset < chain.exact_from:
            return answer
        return self._of_earlier(known, lane, source_offset, backwards=False) or answer

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        """Translate a target offset to the source, like `translate`."""
        known, chain = self._own.map_of(lane), self._chains.get(lane)
        answer = Translation(How.STALE) if known is None else known.source_of(target_offset)
        if known is None or answer.how is not How.BEFORE or chain is None or target_offset < chain.exact_back_from:
            return answer
        return self._of_earlier(known, lane, target_offset, backwards=True) or answer

    def _of_earlier(self, own: OffsetMap, lane: TopicPartition, offset: int, *, backwards: bool) -> Translation | None:
        """Ask the stints before the present one; None if none of them answers."""
        chain = self._chains[lane]
        begin, there = _ChainPart(own, is_back=False).begins(backwards=backwards)
        for number, (start, link) in enumerate(zip(chain.starts, self._links(lane, chain), strict=False)):
            if begin != start:
                return None  # its position was set in another way, so what lies before it is not known
            if number in chain.parted:
                last, there = _parted(chain.parted[number], is_back=number % 2 == 1, backwards=backwards)
                if offset > last:
                    return None
            answer = link.ask(offset, backwards=backwards)
            if answer.how is How.UNREAD:
                return Translation(How.UNREAD, block=-1 - answer.block)
            if answer.how in _ANSWERS:
                return answer if answer.offset <= there else Translation(How.REFINED, there)
            if answer.how in _BEHIND:
                return Translation(How.REFINED, there)
            if answer.how is not How.BEFORE:
                return None
            begin, there = link.begins(backwards=backwards)
        return None

    def _links(self, lane: TopicPartition, chain: LaneChain) -> Iterator[_ChainPart]:
        last = self._closed.map_of(chain.back)
        if last is None or last.head is None:
            return
        yield _ChainPart(last, is_back=True)
        if lane not in self._earlier:
            maps = (one.without_blocks().made() for one in chain.earlier)
            self._earlier[lane] = tuple(_ChainPart(one, is_back=number % 2 == 1) for number, one in enumerate(maps))
        yield from self._earlier[lane]

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory; they stay for the translations that follow at once."""
        if ours := [number for number in blocks if number >= 0]:
            await self._own.recall(lane, ours)
        if others := [-1 - number for number in blocks if number < 0]:
            await self._recall_closed(lane, others)

    async def _recall_closed(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of the reverse flow back; one that cannot be read stays UNREAD, and fails no other lane."""
        try:
            async with asyncio.timeout(self._within_s):
                await self._closed.recall(self._chains[lane].back, blocks)
        except (MirrorError, OSError, TimeoutError):
            return  # the caller sees UNREAD, which is no answer, and asks again

    def begun(self, lane: TopicPartition) -> bool:
        """Whether raymirror's copiers have, or may have, written a map of a lane in this stint."""
        return self._own.begun(lane)

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends; None if it is not known."""
        known = self._own.map_of(lane)
        return None if known is None else known.head

    def begins(self, lane: TopicPartition) -> int:
        """Return the first source offset that the chain of maps answers; -1 if it is not known."""
        known = self._own.map_of(lane)
        if known is None or known.begins is None:
            return -1
        found, chain = known.begins.source, self._chains.get(lane)
        if chain is None:
            return found
        begin = self._begin_of_chain(known, lane, chain)
        return min(found, max(begin, chain.exact_from))

    def _begin_of_chain(self, own: OffsetMap, lane: TopicPartition, chain: LaneChain) -> int:
        part = _ChainPart(own, is_back=False)
        for start, link in zip(chain.starts, self._links(lane, chain), strict=False):
            if part.begins(backwards=False)[0] != start or link.map.begins is None:
                break
            part = link
        return part.source_begin

    @property
    def generations(self) -> int:
        """A number that grows whenever a known lane changes to another generation."""
        return self._own.generations + self._closed.generations

    @property
    def away(self) -> Mapping[int, str]:
        """Brokers of the target that the last `follow` could not reach, and why."""
        return self._own.away

    @property
    def size_bytes(self) -> int:
        """The memory of all maps in bytes."""
        return self._own.size_bytes + self._closed.size_bytes


def _parted(parted: PartedOrder, *, is_back: bool, backwards: bool) -> tuple[int, int]:
    """Return where the order parts on our source, and on our target; `backwards`: the other way round.

    `is_back`: before a stint of the reverse flow, whose source is our target.
    """
    return (parted.target, parted.source) if is_back is not backwards else (parted.source, parted.target)

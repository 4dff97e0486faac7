"""Exact offset maps in memory, with the content that a reader of the real maps would have."""

from collections.abc import Collection, Sequence

from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun, MapStart
from engine.core.offset_map.offset_map import OffsetMap, Translation
from policies.model import TopicPartition

_NO_MAP = OffsetMap()


class FakeMaps:
    """Maps by lane. What `tell` says is known after the next `follow`, as with a topic that is read."""

    def __init__(self) -> None:
        self.maps: dict[TopicPartition, OffsetMap] = {}
        self.waiting: dict[TopicPartition, OffsetMap] = {}
        self.followed: list[set[TopicPartition]] = []
        self.recalled: list[tuple[TopicPartition, list[int]]] = []
        self.blocks: dict[TopicPartition, list[MapBlock]] = {}
        self.away: dict[int, str] = {}
        self.without_stints = ""

    def tell(
        self,
        lane: TopicPartition,
        runs: Sequence[tuple[int, int, int]],
        ends: tuple[int, int],
        *,
        begins: tuple[int, int] = (0, 0),
        first: bool = True,
        generation: int = 1,
    ) -> None:
        """Say the whole map of a lane: runs (source, target, count), where both sides end, where the map begins."""
        made = OffsetMap()
        head = MapHead(generation, 0, *ends, tuple(MapRun(*run) for run in runs))
        made.follow(head, MapStart(*begins, first=first))
        self.waiting[lane] = made

    def tell_blocks(
        self, lane: TopicPartition, blocks: Sequence[Sequence[tuple[int, int, int]]], ends: tuple[int, int]
    ) -> None:
        """Say a map in blocks, none of which is in memory."""
        made = OffsetMap()
        self.blocks[lane] = [
            MapBlock(number, 1, tuple(MapRun(*run) for run in runs)) for number, runs in enumerate(blocks)
        ]
        for block in self.blocks[lane]:
            made.add_block(block, block.number)
        made.follow(MapHead(1, len(blocks), *ends, ()), MapStart(0, 0, first=True))
        made.thin(0)
        self.waiting[lane] = made

    async def follow(self, lanes: Collection[TopicPartition]) -> None:
        self.followed.append(set(lanes))
        self.maps |= self.waiting
        self.waiting = {}

    @property
    def generations(self) -> int:
        return sum(known.head.generation for known in self.maps.values() if known.head is not None)

    @property
    def size_bytes(self) -> int:
        return 24 * len(self.maps)

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        return self.maps.get(lane, _NO_MAP).translate(source_offset)

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        self.recalled.append((lane, list(blocks)))
        self.maps[lane].thin(0)
        for number in blocks:
            self.maps[lane].load(self.blocks[lane][number])

    def map_of(self, lane: TopicPartition) -> OffsetMap | None:
        return self.maps.get(lane)

    def adopt(self, lane: TopicPartition, head: MapHead, start: MapStart) -> None:
        self.maps.setdefault(lane, OffsetMap()).follow(head, start)

    def head(self, lane: TopicPartition) -> MapHead | None:
        return self.maps[lane].head if lane in self.maps else None

    def begins(self, lane: TopicPartition) -> int:
        start = self.maps.get(lane, _NO_MAP).begins
        return -1 if start is None else start.source

    def begun(self, lane: TopicPartition) -> bool:
        return self.head(lane) is not None

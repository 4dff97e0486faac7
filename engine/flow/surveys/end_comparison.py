"""Compares the end offsets of a flow's partitions on both clusters, and explains the difference."""

import asyncio
from collections.abc import Sequence
from itertools import starmap

import msgspec

from engine.base.clock import pause
from engine.base.tasks import run_all
from engine.core.offset_map.map_runs import MapHead, MapRun
from engine.core.offset_map.offset_map import OffsetMap
from engine.core.position.end_offsets import EndsRow, Kinds, compare_ends, target_holes
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.map_reader import MapReader
from policies.model import LaneName, TopicPartition

_AT_ONCE = 8
_MOST_HOLES = 1000
"""Holes of a partition that are examined, with one read each; the rest are counted as unseen."""
_TRIES, _AGAIN_S = 5, 0.7
"""Tries, and the pause between them, if the newest records are in no map yet: copiers write heads once a second."""

NO_MAP = "raymirror has no map of it: it was not copied yet, or MM2 copied it"
NO_COPY = "its copy does not exist"


class EndComparison:
    """Reads both ends, the maps, and the batch headers at target offsets that no map covers; writes nothing."""

    def __init__(self, source: Cluster, target: Cluster, maps: MapReader, quarantine: QuarantineReader) -> None:
        self._source = source
        self._target = target
        self._maps = maps
        self._quarantine = quarantine
        self._replayers = frozenset[int]()
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def compare(self, lanes: Sequence[LaneName]) -> list[EndsRow]:
        """Compare lanes, in their order. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, MirrorError."""
        rows = await self._bounds(lanes)
        await self._maps.follow()
        self._replayers = await self._quarantine.replayers()
        found: dict[LaneName, EndsRow] = {}
        open_rows = rows
        for attempt in range(_TRIES):
            if attempt:
                await pause(_AGAIN_S)
                await self._maps.follow()
            found |= zip(open_rows, await self._judge(open_rows), strict=True)
            open_rows = {lane: row for lane, row in open_rows.items() if self._is_young(lane, found[lane])}
            if not open_rows:
                break
        return [found[lane] for lane in lanes]

    async def _bounds(self, lanes: Sequence[LaneName]) -> dict[LaneName, EndsRow]:
        led = await self._source.leaders([lane.source for lane in lanes])
        copies = await self._target.leaders([lane.target for lane in lanes])
        source, target = list(led), list(copies)
        starts, ends = await self._source.offsets(source, EARLIEST), await self._source.offsets(source, LATEST)
        there = await self._target.offsets(target, LATEST)
        there_from = await self._target.offsets(target, EARLIEST)
        return {
            lane: EndsRow(
                topic=lane.source.topic,
                partition=lane.source.partition,
                target_topic=lane.target.topic,
                source_start=starts.get(lane.source, -1),
                source_end=ends.get(lane.source, -1),
                target_start=there_from.get(lane.target, -1),
                target_end=there.get(lane.target, -1),
            )
            for lane in lanes
        }

    async def _judge(self, rows: dict[LaneName, EndsRow]) -> list[EndsRow]:
        judged: dict[LaneName, EndsRow] = {}

        async def judge(lane: LaneName, row: EndsRow) -> None:
            async with self._at_once:
                judged[lane] = await self._compare(lane, row)

        await run_all(*starmap(judge, rows.items()))
        return [judged[lane] for lane in rows]

    async def _compare(self, lane: LaneName, row: EndsRow) -> EndsRow:
        known = self._maps.map_of(lane.source)
        if row.source_end < 0 or row.target_end < 0:
            return msgspec.structs.replace(row, why=NO_COPY)
        if known is None or known.head is None or known.begins is None:
            return msgspec.structs.replace(row, why=self._maps.unreadable.get(lane.source, NO_MAP))
        begins, head = known.begins, known.head
        runs = await self._runs(lane.source, known, head)
        first = row.target_start if begins.first else max(row.target_start, begins.target)
        holes = target_holes(runs, first, row.target_end).stretches
        kinds = Kinds(self._replayers)
        for start, end in holes[:_MOST_HOLES]:
            kinds.add(start, end, await self._target.read_headers(lane.target, start, end))
        unseen = sum(end - start for start, end in holes[_MOST_HOLES:])
        return compare_ends(row, begins, head, runs, kinds, unseen)

    async def _runs(self, lane: TopicPartition, known: OffsetMap, head: MapHead) -> list[MapRun]:
        assert known.begins is not None
        columns = await self._maps.runs(lane, known.begins.source, head.source_next)
        return list(starmap(MapRun, zip(*columns, strict=True)))

    def _is_young(self, lane: LaneName, row: EndsRow) -> bool:
        """Whether a lane's newest records may be raymirror's, and not yet in a written map."""
        head = self._maps.head(lane.source)
        return bool(row.strangers) and head is not None and head.target_next < row.target_end

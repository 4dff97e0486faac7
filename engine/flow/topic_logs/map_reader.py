"""Reads the exact offset maps of a flow's lanes from the topics that copiers write, to translate offsets.

    positions topic   every lane's head, written every few seconds             |  the newer of both
    offset syncs      the head after MM2's own bytes, about once a second      |  counts
    map topic         full blocks: an anchor each, the latest runs in memory, others read back on demand

A pass reads positions and syncs to their ends, then the blocks to theirs. The blocks that a head counts were durable
before the head, so a pass always finds them. Any process may run one pass or many: the reader writes nothing and needs
no running mirror.
"""

import asyncio
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError
from engine.base.tasks import run_all
from engine.core.mm2.mm2_records import decode_offset_sync
from engine.core.offset_map.map_blocks import decode_block, decode_tail, map_topic, read_block_key
from engine.core.offset_map.map_runs import RUNS_PER_BLOCK, MapHead, MapStart
from engine.core.offset_map.offset_map import Columns, How, OffsetMap, Translation
from engine.core.position.position import Position, decode_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster, Leader
from engine.wire.murmur2 import partition_for_key
from engine.wire.record import Record
from policies.model import TopicPartition

_AT_ONCE = 8
_LAST_SYNCS = 50_000
"""The last records of the syncs topic, read if none is new enough: then no copier writes any more."""
_LEAST_RUNS = 2 * RUNS_PER_BLOCK
"""Runs that one lane keeps at least: runs that were just read back must stay until they are used."""
_UNKNOWN = Translation(How.STALE)

Take = Callable[[TopicPartition, Record], None]


class MapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The topics of the flow to read, and how many runs stay in memory (24 bytes each)."""

    positions_topic: str
    positions_partitions: int
    position_keys: PositionKeys
    syncs_topic: str = ""
    """Empty: no offset syncs are read, and heads are as old as the positions."""
    syncs_since_s: float = 300.0
    """Older syncs are not read: positions are written more often than this, so they are newer."""
    syncs_within_s: float | None = None
    """None: a pass fails if the syncs cannot be read. Else the reader gives up syncs then, or after so many seconds."""
    keep_runs: int = 2_000_000
    bears_away: bool = False
    """If a broker is unreachable: only lanes whose map or position it leads have no answer; if false, a pass fails."""


class MapReader:
    """Fills the maps of all lanes; `syncs`: the cluster that holds the offset syncs."""

    def __init__(self, options: MapOptions, target: Cluster, syncs: Cluster | None = None) -> None:
        self._options = options
        self._target = target
        self._syncs = syncs or target
        self._maps: dict[TopicPartition, OffsetMap] = {}
        self._lies_on: dict[TopicPartition, TopicPartition] = {}
        self._read_to: dict[TopicPartition, tuple[int, int]] = {}  # offset after the last record, log end at that time
        self._topic_ids: dict[TopicPartition, str] = {}  # topic ids of the partitions that were read
        self._positions: dict[TopicPartition, bytes | None] = {}  # the last value of each lane: most are never decoded
        self._producers: dict[TopicPartition, int] = {}
        self._tails: dict[TopicPartition, tuple[bytes, int]] = {}
        self._stamps: dict[TopicPartition, int] = {}  # Unix ms of each lane's last position
        self._heads_ms: dict[TopicPartition, int] = {}
        self._loaded = 0
        self._busy = asyncio.Lock()
        self.generations = 0
        """How often a known lane changed to another generation, because it has a new owner."""
        self.away: dict[int, str] = {}
        """Brokers of the target that the last pass could not reach, and why."""
        self._dark: set[int] = set()
        """Partitions of positions and map that the last pass could not read to the end: their lanes have no answers."""
        self.without_syncs = ""
        """Why the syncs were given up, so that heads are as old as the positions; empty if the syncs are read."""
        self.unreadable: dict[TopicPartition, str] = {}
        """Lanes whose last position cannot be read, and why: nothing is known of them."""

    # --- catching up -----------------------------------------------------------------------------------------

    async def follow(self, lanes: Collection[TopicPartition] | None = None) -> None:
        """Read all that was written until now, of all lanes; `lanes` has no effect.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal; the next call continues where this one stopped.
        """
        del lanes  # to find one lane's records the whole partition must be read, so the records of all lanes are kept
        async with self._busy:
            count = self._options.positions_partitions
            positions = [TopicPartition(self._options.positions_topic, number) for number in range(count)]
            dark = await self._read(self._target, positions, self._position)
            if self._options.syncs_topic and not self.without_syncs:
                await self._follow_syncs()
            topic = map_topic(self._options.position_keys.source)
            blocks = [TopicPartition(topic, number) for number in range(count)]
            dark |= await self._read(self._target, blocks, self._block)
            self._dark = {one.partition for one in dark}
            self._apply()

    async def _follow_syncs(self) -> None:
        """Read new syncs; if `syncs_within_s` is set, continue without them after a failure."""
        syncs = [TopicPartition(self._options.syncs_topic, 0)]
        since_ms = wall_ms() - int(self._options.syncs_since_s * 1000)
        try:
            async with asyncio.timeout(self._options.syncs_within_s):
                await self._read(self._syncs, syncs, self._sync, since_ms=since_ms)  # without syncs heads are older
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal, TimeoutError) as lost:
            if self._options.syncs_within_s is None:
                raise
            self.without_syncs = str(lost) or f"no answer within {self._options.syncs_within_s:.0f} s"

    async def _read(
        self, cluster: Cluster, partitions: Sequence[TopicPartition], take: Take, since_ms: int = EARLIEST
    ) -> set[TopicPartition]:
        """Read what is new in some partitions; leave out partitions that do not exist (yet).

        Return the partitions whose leader is unreachable, if `bears_away` is set.
        """
        leaders = await cluster.leaders(partitions)
        dark = await self._out_of_reach(cluster, leaders)
        led = [one for one in leaders if one not in dark]
        ends = await cluster.offsets(led, LATEST) if led else {}
        for one in led:
            self._compare(one, leaders[one].topic_id, ends[one])
        grown = [one for one in led if one not in self._read_to or self._read_to[one][1] < ends[one]]
        if not grown:
            return dark
        starts = await cluster.offsets(grown, EARLIEST)
        fresh = [one for one in grown if one not in self._read_to and since_ms != EARLIEST]
        if fresh:
            since = await cluster.offsets(fresh, since_ms)
            for one, at in since.items():
                starts[one] = at if at >= 0 else max(starts[one], ends[one] - _LAST_SYNCS)
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def read(partition: TopicPartition) -> None:
            async with at_once:
                reached = max(starts[partition], self._read_to.get(partition, (-1, -1))[0])
                async for records in cluster.read_log(partition, reached, ends[partition], committed=True):
                    for record in records:
                        take(partition, record)
                        reached = record.offset + 1
                self._read_to[partition] = reached, ends[partition]

        await run_all(*(read(partition) for partition in grown))
        return dark

    async def _out_of_reach(self, cluster: Cluster, led: Mapping[TopicPartition, Leader]) -> set[TopicPartition]:
        """Return the partitions without a reachable leader, if `bears_away` is set."""
        if not self._options.bears_away:
            return set()
        away = await cluster.unreachable({leader.node for leader in led.values()} - {-1})
        if cluster is self._target:
            self.away = away
        return {one for one, leader in led.items() if leader.node < 0 or leader.node in away}

    def _compare(self, partition: TopicPartition, topic_id: str, end: int) -> None:
        """Read a log from its start if it is another log than before, or if it lost its end.

        A topic that was deleted and created again (KIP-516 gives it another id) may be longer than the previous topic
        by the time of the next pass. The blocks of the previous topic are lost; maps of its lanes start after them.
        """
        before = self._topic_ids.get(partition, "")
        if topic_id:
            self._topic_ids[partition] = topic_id
        other = bool(before) and bool(topic_id) and before != topic_id
        if other:
            for lane in [lane for lane, lies_on in self._lies_on.items() if lies_on == partition]:
                self._forget_blocks(lane)
        if other or end < self._read_to.get(partition, (end, end))[0]:
            self._read_to.pop(partition, None)

    def _forget_blocks(self, lane: TopicPartition) -> None:
        known = self._maps[lane]
        before = known.loaded_runs
        for number in range(known.blocks):
            known.remove_block(number)
        self._loaded += known.loaded_runs - before

    def _position(self, _partition: TopicPartition, record: Record) -> None:
        lane = self._options.position_keys.decode(record.key)
        if lane is not None:
            self._positions[lane], self._stamps[lane] = record.value, record.timestamp

    def _sync(self, _partition: TopicPartition, record: Record) -> None:
        try:
            sync = decode_offset_sync(record.key, record.value)
        except MirrorError:
            return  # not a sync
        if sync.tail:  # a sync without a tail is MM2's, or not the last sync of a lane in its batch
            self._tails[TopicPartition(sync.topic, sync.partition)] = sync.tail, record.timestamp

    def _block(self, partition: TopicPartition, record: Record) -> None:
        key = read_block_key(record.key)
        if key is None or key[0] != self._options.position_keys.source:
            return
        _, lane, number = key
        known = self._maps.setdefault(lane, OffsetMap())
        before = known.loaded_runs
        if record.value is None:
            known.remove_block(number)
            self._loaded += known.loaded_runs - before
            return
        try:
            known.add_block(decode_block(number, record.value), record.offset)
        except ValueError:
            return  # it cannot be read: the map starts after it
        self._lies_on[lane] = partition
        self._loaded += known.loaded_runs - before
        self._thin()

    def _apply(self) -> None:
        """Move the maps to the newest heads; ignore a sync of another owner than the position's owner."""
        waiting = {lane: value for lane, value in self._positions.items() if self._is_dark(lane)}
        for lane, value in self._positions.items():
            if lane in waiting:
                continue  # the blocks that the position counts may not be read yet
            self.unreadable.pop(lane, None)
            try:
                position = decode_value(value)
            except ValueError as error:
                self.unreadable[lane] = str(error)
                continue
            if isinstance(position, Position):  # if MM2 wrote the position, the map is still true as far as it goes
                known = self._maps.setdefault(lane, OffsetMap())
                before = known.head
                if known.follow(position.map_head, position.map_start):
                    self._heads_ms[lane] = self._stamps[lane]
                self._producers[lane] = position.producer_id
                if before is not None and known.head is not None:
                    self.generations += known.head.generation != before.generation
        self._positions = waiting
        for lane, (tail, at_ms) in list(self._tails.items()):
            if not self._is_dark(lane) and self._followed(lane, tail, at_ms):
                del self._tails[lane]

    def adopt(self, lane: TopicPartition, head: MapHead, start: MapStart) -> None:
        """Take the end of a closed map, as of the last `follow`, that no position has any more."""
        self._maps.setdefault(lane, OffsetMap()).follow(head, start)

    def _followed(self, lane: TopicPartition, tail: bytes, at_ms: int) -> bool:
        """Move the map to the head in a sync; return False if the next pass must try the sync again."""
        try:
            live = decode_tail(tail)
        except ValueError:
            return True  # a newer version wrote it: the positions have the same head a little later
        known = self._maps.get(lane)
        if live is None or known is None or known.head is None or live.generation > known.head.generation:
            return False  # that owner wrote its position before the sync, so the next pass finds the position
        if live.generation == known.head.generation and live.blocks <= known.blocks and known.follow(live):
            self._heads_ms[lane] = at_ms
        return True

    # --- memory ----------------------------------------------------------------------------------------------

    def _thin(self) -> None:
        """Keep to `keep_runs`: every map drops its runs above an equal share of three quarters of it."""
        if self._loaded <= self._options.keep_runs:
            return
        share = max(_LEAST_RUNS, self._options.keep_runs * 3 // 4 // len(self._maps))
        for known in self._maps.values():
            before = known.loaded_runs
            known.thin(share)
            self._loaded += known.loaded_runs - before

    @property
    def size_bytes(self) -> int:
        """The memory of all maps, in bytes: anchors (32 bytes per block) and runs (24 bytes each)."""
        return 32 * sum(known.blocks for known in self._maps.values()) + 24 * self._loaded

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory; they stay for translations that follow at once.

        A block that was rewritten since the last `follow`, or whose topic was created again, stays unread until the
        next `follow`. Raises as `follow` does.
        """
        known, source = self._maps[lane], self._options.position_keys.source
        for number in blocks:
            at, before = known.place(number), known.loaded_runs
            if at < 0:
                continue  # removed during this loop, together with the records that it covered
            async for records in self._target.read_log(self._lies_on[lane], at, at + 1, committed=True):
                for record in records:
                    if record.value is not None and read_block_key(record.key) == (source, lane, number):
                        known.load(decode_block(number, record.value))
            self._loaded += known.loaded_runs - before
            self._thin()

    async def runs(self, lane: TopicPartition, source_from: int, source_to: int) -> Columns:
        """Return the runs that hold any of these source offsets, and some around them; read dropped blocks back.

        Raises as `follow` does, and LookupError if a block was removed or rewritten: then call `follow`, and try again.
        """
        known = self._maps[lane]
        found: Columns = array("q"), array("q"), array("q")
        for number in known.numbers(source_from):
            if known.columns(number) is None:
                await self.recall(lane, [number])
            columns = known.columns(number)
            if columns is None:
                raise LookupError(f"block {number} of the map of {lane}")
            if columns[0] and columns[0][0] >= source_to:
                break
            for column, more in zip(found, columns, strict=True):
                column.extend(more)
        return found

    # --- answers ---------------------------------------------------------------------------------------------

    def map_of(self, lane: TopicPartition) -> OffsetMap | None:
        """Return the map of a lane, None if nothing is known of it."""
        return None if lane in self.unreadable or self._is_dark(lane) else self._maps.get(lane)

    def _is_dark(self, lane: TopicPartition) -> bool:
        """Whether the last pass could not read the partition that holds the lane's position and map."""
        if not self._dark:
            return False
        key = self._options.position_keys.encode(lane)
        return partition_for_key(key, self._options.positions_partitions) in self._dark

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return the end of a lane's copy (source and target offset), None if it is not known."""
        known = self.map_of(lane)
        return None if known is None else known.head

    def begins(self, lane: TopicPartition) -> int:
        """Return the first source offset that the map of a lane answers; -1 if it is not known."""
        known = self.map_of(lane)
        start = None if known is None else known.begins
        return -1 if start is None else start.source

    def head_ms(self, lane: TopicPartition) -> int:
        """Return when the position or offset sync with the lane's head was written (Unix ms); -1: not known."""
        return self._heads_ms.get(lane, -1)

    def producer(self, lane: TopicPartition) -> int | None:
        """Return the producer id in a lane's last position; None if nothing is known of the lane."""
        return None if self.map_of(lane) is None else self._producers.get(lane)

    def begun(self, lane: TopicPartition) -> bool:
        """Whether raymirror's copiers have written a head of the lane, or may have, if that cannot be read now."""
        return self._is_dark(lane) or lane in self._tails or self.head(lane) is not None

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Translate from memory; UNREAD names a block to `recall`, STALE: nothing is known of the lane."""
        known = self.map_of(lane)
        return _UNKNOWN if known is None else known.translate(source_offset)

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        """Translate a target offset to the source, like `translate`; `lane` is the source partition."""
        known = self.map_of(lane)
        return _UNKNOWN if known is None else known.source_of(target_offset)

"""The exact maps of a flow's lanes, read from the topics that copiers write: for whoever translates offsets.

    positions topic   every lane's head, written now and then           |  the newest of both
    offset syncs      the same behind MM2's bytes, about once a second  |  is followed
    map topic         full blocks: an anchor each, the latest runs in memory, others read back when asked for

One pass reads positions and syncs to their ends, then the blocks to theirs: whatever a head counts was durable before
it, so it is there. Passes may follow each other for ever, or one may be all, in any process: nothing is written, and
nobody need be asked.
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
from engine.core.offset_map.map_runs import RUNS_PER_BLOCK, MapHead
from engine.core.offset_map.offset_map import Columns, How, OffsetMap, Translation
from engine.core.position.position import Position, decode_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster, Leader
from engine.wire.murmur2 import partition_for_key
from engine.wire.record import Record
from policies.model import TopicPartition

_AT_ONCE = 8
_LAST_SYNCS = 50_000
"""Records looked at where nothing is young enough: nobody writes any more, and these were the last."""
_LEAST_RUNS = 2 * RUNS_PER_BLOCK
"""Of one lane: what was just read back must outlast the question."""
_UNKNOWN = Translation(How.STALE)

Take = Callable[[TopicPartition, Record], None]


class MapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is read: the flow's topics, and how many runs stay in memory (24 bytes each)."""

    positions_topic: str
    positions_partitions: int
    position_keys: PositionKeys
    syncs_topic: str = ""
    """Empty: no offset syncs are read, and heads are as old as the positions."""
    syncs_since_s: float = 300.0
    """Older syncs tell less than the positions, which are written more often than that."""
    syncs_within_s: float | None = None
    """None: a pass fails where the syncs cannot be read. Else they are left for good, then or after so many seconds."""
    keep_runs: int = 2_000_000
    bears_away: bool = False
    """Whether a broker that cannot be reached leaves only the lanes without an answer whose map or position it leads;
    else following fails."""


class MapReader:
    """Fills maps of the lanes it was asked for; `syncs` is the cluster that holds the offset syncs."""

    def __init__(self, options: MapOptions, target: Cluster, syncs: Cluster | None = None) -> None:
        self._options = options
        self._target = target
        self._syncs = syncs or target
        self._maps: dict[TopicPartition, OffsetMap] = {}
        self._lies_on: dict[TopicPartition, TopicPartition] = {}
        self._read_to: dict[TopicPartition, tuple[int, int]] = {}  # behind the last record, and the end by then
        self._topic_ids: dict[TopicPartition, str] = {}  # of the topic that was read
        self._positions: dict[TopicPartition, bytes | None] = {}  # the last of each lane: most are never decoded
        self._producers: dict[TopicPartition, int] = {}
        self._tails: dict[TopicPartition, tuple[bytes, int]] = {}
        self._stamps: dict[TopicPartition, int] = {}  # of the last position of each lane
        self._heads_ms: dict[TopicPartition, int] = {}
        self._loaded = 0
        self._busy = asyncio.Lock()
        self.generations = 0
        """How often a lane that was known went over to another generation: it has a new owner."""
        self.away: dict[int, str] = {}
        """Brokers of the target that could not be reached by the last pass, and why."""
        self._dark: set[int] = set()
        """Partitions of positions and map of which the last pass could not read all: their lanes have no answers."""
        self.without_syncs = ""
        """Why heads are as old as the positions, where the syncs may be left and could not be read."""
        self.unreadable: dict[TopicPartition, str] = {}
        """Why nothing is known of a lane although something is written: its last position is none that we read."""

    # --- catching up -----------------------------------------------------------------------------------------

    async def follow(self, lanes: Collection[TopicPartition] | None = None) -> None:
        """Catch up with all that was written until now, of all lanes: those named are of no consequence.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal; asked again, it goes on where it stopped.
        """
        del lanes  # all of a partition must be read to find one lane's records, so all are kept
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
        """Read the syncs that are new; whoever reads for one answer, soon, may do without."""
        syncs = [TopicPartition(self._options.syncs_topic, 0)]
        since_ms = wall_ms() - int(self._options.syncs_since_s * 1000)
        try:
            async with asyncio.timeout(self._options.syncs_within_s):
                await self._read(self._syncs, syncs, self._sync, since_ms=since_ms)  # without them heads are older
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal, TimeoutError) as lost:
            if self._options.syncs_within_s is None:
                raise
            self.without_syncs = str(lost) or f"no answer within {self._options.syncs_within_s:.0f} s"

    async def _read(
        self, cluster: Cluster, partitions: Sequence[TopicPartition], take: Take, since_ms: int = EARLIEST
    ) -> set[TopicPartition]:
        """Read what is new in some partitions; those that do not exist (yet) are left out.

        Return those that could not be read because their leader is away, where that is borne.
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
        """Return the partitions whose leader is away or that have none, where that is borne."""
        if not self._options.bears_away:
            return set()
        away = await cluster.unreachable({leader.node for leader in led.values()} - {-1})
        if cluster is self._target:
            self.away = away
        return {one for one, leader in led.items() if leader.node < 0 or leader.node in away}

    def _compare(self, partition: TopicPartition, topic_id: str, end: int) -> None:
        """Begin again with a log that is not the one that was read, or that lost its end: all that is there is news.

        A topic that was deleted and made again (KIP-516) may have grown beyond the former one before anybody looks.
        The blocks of the former one are lost with it; its lanes' maps begin behind them.
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
            return  # whatever it is, no sync
        if sync.tail:  # else MM2 wrote it, or it is one of several of a lane
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
            return  # not to be read: the map begins behind it
        self._lies_on[lane] = partition
        self._loaded += known.loaded_runs - before
        self._thin()

    def _apply(self) -> None:
        """Let the maps follow the newest heads; a sync of another owner than the position's is not believed."""
        waiting = {lane: value for lane, value in self._positions.items() if self._is_dark(lane)}
        for lane, value in self._positions.items():
            if lane in waiting:
                continue  # the blocks that it counts may not be read yet
            self.unreadable.pop(lane, None)
            try:
                position = decode_value(value)
            except ValueError as error:
                self.unreadable[lane] = str(error)
                continue
            if isinstance(position, Position):  # after one of MM2's, our map is still true as far as it goes
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

    def _followed(self, lane: TopicPartition, tail: bytes, at_ms: int) -> bool:
        """Follow the head in a sync; False for one that is to be looked at again with the next pass."""
        try:
            live = decode_tail(tail)
        except ValueError:
            return True  # somebody newer wrote it: the positions tell the same a little later
        known = self._maps.get(lane)
        if live is None or known is None or known.head is None or live.generation > known.head.generation:
            return False  # the position of that owner was written first, so the next pass has it
        if live.generation == known.head.generation and live.blocks <= known.blocks and known.follow(live):
            self._heads_ms[lane] = at_ms
        return True

    # --- memory ----------------------------------------------------------------------------------------------

    def _thin(self) -> None:
        """Keep to the budget: every map gives up what it has above its share, and some more for what is to come."""
        if self._loaded <= self._options.keep_runs:
            return
        share = max(_LEAST_RUNS, self._options.keep_runs * 3 // 4 // len(self._maps))
        for known in self._maps.values():
            before = known.loaded_runs
            known.thin(share)
            self._loaded += known.loaded_runs - before

    @property
    def size_bytes(self) -> int:
        """The memory of all maps, as far as it is anchors (32 bytes a block) and runs (24 bytes)."""
        return 32 * sum(known.blocks for known in self._maps.values()) + 24 * self._loaded

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory; they stay for the questions that follow at once.

        A block that was written anew meanwhile, or whose topic was made again, stays unread until the next `follow`.
        Raises as `follow` does.
        """
        known, source = self._maps[lane], self._options.position_keys.source
        for number in blocks:
            at, before = known.place(number), known.loaded_runs
            if at < 0:
                continue  # removed meanwhile, with the records that it named
            async for records in self._target.read_log(self._lies_on[lane], at, at + 1, committed=True):
                for record in records:
                    if record.value is not None and read_block_key(record.key) == (source, lane, number):
                        known.load(decode_block(number, record.value))
            self._loaded += known.loaded_runs - before
            self._thin()

    async def runs(self, lane: TopicPartition, source_from: int, source_to: int) -> Columns:
        """Return the runs that hold any of these source offsets, and some around them; thinned blocks are read back.

        Raises as `follow` does, and LookupError for a block that is gone or was written anew: follow, and ask again.
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
        """Return the map of a lane as it is known, None where nothing is."""
        return None if lane in self.unreadable or self._is_dark(lane) else self._maps.get(lane)

    def _is_dark(self, lane: TopicPartition) -> bool:
        """Whether the present position of a lane, or blocks of its map, may be where the last pass could not read."""
        if not self._dark:
            return False
        key = self._options.position_keys.encode(lane)
        return partition_for_key(key, self._options.positions_partitions) in self._dark

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends, None where that is not known."""
        known = self.map_of(lane)
        return None if known is None else known.head

    def head_ms(self, lane: TopicPartition) -> int:
        """Return when the position or offset sync was written that told the head (Unix time); -1: not said."""
        return self._heads_ms.get(lane, -1)

    def producer(self, lane: TopicPartition) -> int | None:
        """Return the id of the producer that a lane's last position names; None where nothing is known of the lane."""
        return None if self.map_of(lane) is None else self._producers.get(lane)

    def begun(self, lane: TopicPartition) -> bool:
        """Whether copiers of ours have told anything of a lane, or may have where that cannot be read just now."""
        return self._is_dark(lane) or lane in self._tails or self.head(lane) is not None

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Answer from memory; UNREAD names a block to `recall`, STALE means that nothing is known of the lane."""
        known = self.map_of(lane)
        return _UNKNOWN if known is None else known.translate(source_offset)

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        """The way back, as `translate`; `lane` is still named by its source partition."""
        known = self.map_of(lane)
        return _UNKNOWN if known is None else known.source_of(target_offset)

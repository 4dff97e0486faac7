"""Lists, counts, replays and drops the refused records of a flow; says what became of each one. Runs without Ray.

It reads the target only, so it works while the source does not answer. Whether a record was copied after all says the
offset map, not its entry: an owner that died before its position was durable may have been followed by one whose batch
the target took.
"""

import enum
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import msgspec

from engine.base.clock import wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.position.position import Position
from engine.core.refused.entries import RefusedMark, RefusedName, RefusedState
from engine.flow.ownership.stored_positions import resumable_positions
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.refused.replay import Replay, ReplayFailed
from engine.flow.topic_logs.map_reader import MapReader
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import clients_of, opened
from engine.services.maps import stored_maps_of
from engine.wire.record import Record
from policies.model import PartitionRow, TopicPartition
from policies.words import counted

CLIENT_ID = "raymirror-quarantine"


class RefusedStanding(enum.Enum):
    """What became of a refused record."""

    HELD = "held"
    """Left out of the copy; the entry holds the record."""
    SKIPPED = "skipped"
    """Left out of the copy; nothing holds the record but the source."""
    PENDING = "pending"
    """The copy has not passed the record: its lane will send it once more, and the target may take it."""
    COPIED = "copied"
    """The target took the record after all: the entry is void."""
    UNSURE = "unsure"
    """The offset map says nothing of the record: it starts later, or the source topic is another one now."""
    REPLAYED = "replayed"
    DROPPED = "dropped"


class RefusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One record, its entry and its mark, and what became of it."""

    standing: RefusedStanding
    state: RefusedState

    @property
    def name(self) -> RefusedName:
        """The identity of the record."""
        return self.state.record.name

    @property
    def is_open(self) -> bool:
        """Whether somebody still has to decide about the record."""
        return self.standing not in (RefusedStanding.COPIED, RefusedStanding.REPLAYED, RefusedStanding.DROPPED)


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay did with one record: its target offset, or -1 and why it was not replayed."""

    name: RefusedName
    target_offset: int = -1
    why_not: str = ""


class LeftOutRow(PartitionRow, frozen=True):
    """A source partition, and how many of its records the target refused that nobody has replayed or dropped."""

    records: int

    @property
    def text(self) -> str:
        """Say how many records of the partition the target lacks."""
        return f"{counted(self.records, 'record')} that it refused"

    def __str__(self) -> str:
        return f"{self.lane}: the target lacks {self.text}"


class LeftOutRecords(msgspec.Struct, frozen=True, kw_only=True):
    """What the target of a flow lacks, because it refused it; `unknown`: why that is not known, empty if it is."""

    rows: tuple[LeftOutRow, ...] = ()
    unknown: str = ""

    @property
    def records(self) -> int:
        """The number of records; -1: not known."""
        return -1 if self.unknown else sum(row.records for row in self.rows)


def left_out_rows(rows: Iterable[RefusedRow]) -> tuple[LeftOutRow, ...]:
    """Count the records that somebody still has to decide about, by source partition."""
    found = Counter(row.name.lane for row in rows if row.is_open)
    return tuple(LeftOutRow(*lane, found[lane]) for lane in sorted(found))


class RefusedSurvey:
    """Says what became of each refused record of one flow, with the target connected. It writes nothing."""

    def __init__(self, flow: FlowConfig, target: KafkaCluster, reader: QuarantineReader) -> None:
        self._flow, self._target, self._reader = flow, target, reader
        # Without offset syncs: the next owner of a lane begins at its position, and would send again a record that only
        # a sync has passed, behind its replay.
        self._maps: MapReader = stored_maps_of(flow, target, target)

    async def rows(self) -> list[RefusedRow]:
        """Return all records, by topic, partition and offset.

        Raises BadEntry, NewerFormat, BrokerUnreachable, ConnectionLost, KafkaRefusal.
        """
        states = await self._reader.states()
        if not states:
            return []
        await self._maps.follow()
        records = await self._target.read_records(self._flow.positions_topic)
        positions = resumable_positions(records, self._flow.position_keys)
        ids = {lane: one.source_topic_id for lane, one in positions.items() if isinstance(one, Position)}
        return [RefusedRow(standing=await self._standing(one, ids), state=one) for one in states]

    async def _standing(self, state: RefusedState, ids: dict[TopicPartition, str]) -> RefusedStanding:
        if state.mark is not None:
            return RefusedStanding(state.mark.did)
        name, lane = state.record.name, state.record.name.lane
        known = self._maps.map_of(lane)
        head, begins = (None, None) if known is None else (known.head, known.begins)
        is_other = bool(name.topic_id) and ids.get(lane, name.topic_id) != name.topic_id
        if head is None or begins is None or is_other:
            return RefusedStanding.UNSURE
        if name.offset >= head.source_next:
            return RefusedStanding.PENDING
        if name.offset < begins.source:  # also if retention cut the map: a copy may have been deleted with it
            return RefusedStanding.UNSURE
        try:
            sources, _, counts = await self._maps.runs(lane, name.offset, name.offset + 1)
        except LookupError:
            return RefusedStanding.UNSURE
        if any(source <= name.offset < source + count for source, count in zip(sources, counts, strict=True)):
            return RefusedStanding.COPIED
        return RefusedStanding.HELD if state.record.held else RefusedStanding.SKIPPED


class RefusedRecords:
    """The refused records of one flow, with the target connected."""

    def __init__(self, flow: FlowConfig, target: KafkaCluster) -> None:
        self._replay = Replay(target, flow.name, wall_ms, flow.request_timeout_s)
        self._reader = self._replay.reader
        self._survey = RefusedSurvey(flow, target, self._reader)

    @property
    def topic(self) -> str:
        """The name of the quarantine topic."""
        return self._reader.topic

    async def rows(self) -> list[RefusedRow]:
        """Return all records, by topic, partition and offset. Raises as `RefusedSurvey.rows` does."""
        return await self._survey.rows()

    async def contents(self, row: RefusedRow) -> Record | None:
        """Return the record itself; None if its entry does not hold it. Raises as `rows` does."""
        return await self._reader.contents(row.state)

    async def replay(
        self, wanted: Callable[[RefusedRow], bool], tell: Callable[[ReplayResult], None], *, unsure: bool = False
    ) -> list[ReplayResult]:
        """Replay the wanted records that are held (`unsure`: these too), in the order of their offsets.

        The rows are read once more after an earlier replay was fenced off, and the marks whenever this one may have
        fenced another. If a record cannot be replayed, the later ones of its partition are not either. Raises
        ReplayFailed without transactions or the right to them, and as `rows` does.
        """
        allowed = {RefusedStanding.HELD, *([RefusedStanding.UNSURE] if unsure else [])}
        await self._replay.begin()
        results: list[ReplayResult] = []
        stopped: dict[TopicPartition, str] = {}
        marks: Mapping[RefusedName, RefusedMark] = {}
        for row in await self.rows():
            if not (wanted(row) and row.standing in allowed and row.state.record.held):
                continue
            begun = self._replay.begun
            result = await self._replay_one(row, stopped, marks.get(row.name))
            if self._replay.begun != begun:
                marks = await self._reader.marked()
            results.append(result)
            tell(result)
        return results

    async def _replay_one(
        self, row: RefusedRow, stopped: dict[TopicPartition, str], mark: RefusedMark | None
    ) -> ReplayResult:
        lane = row.name.lane
        if mark is not None:
            return ReplayResult(name=row.name, why_not=f"another command has {mark.did} it")
        if lane in stopped:
            return ReplayResult(name=row.name, why_not=f"{stopped[lane]} before it was not replayed")
        record = await self.contents(row)
        if record is None:
            stopped[lane] = str(row.name)
            return ReplayResult(name=row.name, why_not="its entry was replaced meanwhile")
        try:
            return ReplayResult(name=row.name, target_offset=await self._replay.replay(row.state, record))
        except ReplayFailed as failed:
            stopped[lane] = str(row.name)
            return ReplayResult(name=row.name, why_not=failed.why)

    async def drop(self, wanted: Callable[[RefusedRow], bool], tell: Callable[[RefusedRow], None]) -> list[RefusedRow]:
        """Mark the wanted records that are not done with as dropped, and remove their contents; return the others.

        The rows are read once a replay that ran is fenced off. Raises ReplayFailed, also if a replay begins meanwhile,
        and as `rows` does.
        """
        await self._replay.begin_drops()
        rows = [row for row in await self.rows() if wanted(row)]
        for row in rows:
            if row.is_open:
                await self._replay.drop(row.state)
                tell(row)
        return [row for row in rows if not row.is_open]

    async def close(self) -> None:
        """Close what replays have opened."""
        await self._replay.close()


@asynccontextmanager
async def quarantine_of(config: MirrorConfig, flow: FlowConfig) -> AsyncIterator[RefusedRecords]:
    """Connect to the target of a flow. Raises ConfigError, BrokerUnreachable."""
    _, client = clients_of(config, flow.name, CLIENT_ID)
    async with opened(client):
        found = RefusedRecords(flow, KafkaCluster(client, request_timeout_s=flow.request_timeout_s))
        try:
            yield found
        finally:
            await found.close()

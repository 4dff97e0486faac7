"""Reads the input of a proof from both clusters: lanes, their maps, starts and ends of both logs, cleanup policies.

The maps are read as the translation of offsets reads them. They are read before the ends, so that the records in a
map's head are below the ends, unless the target lost them.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from msgspec.structs import replace

from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.offset_map.map_runs import MapHead
from engine.core.offset_map.offset_map import OffsetMap
from engine.core.refused.entries import RefusedState, by_lane
from engine.flow.ports.ports import EARLIEST, LATEST, Leader
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.map_reader import MapReader
from engine.jobs.proof.beyond import BeyondScan, BeyondStretch, differences_of, size
from engine.jobs.proof.model import LaneReport, NothingToProve, ProofOptions, ProofVerdict, Proven, RecordDifference
from engine.jobs.proof.plan import MapColumns, ProofLane
from engine.jobs.proof.state import Key
from engine.jobs.proof.stretch import Known, asked, stretch_of
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import clients_of, opened
from engine.services.maps import clusters_of, maps_of
from policies.model import LaneName, TopicPartition
from policies.patterns import BadPattern, PatternList
from policies.sync.topic_configs import ConfigEntry

CLIENT_ID = "raymirror-verify"
NO_MAP = "no map: raymirror has written no offset map for this partition (MM2 copied it, or copying has not started)"
NO_TARGET = "the target has no such partition"
BEHIND = "the partition's map is being written; run the proof again"
_POLICY, _STAMPS = "cleanup.policy", "message.timestamp.type"


class ProofSnapshot(NamedTuple):
    """The lanes to read, and one report per lane; `lanes` and `begun` correspond by index."""

    lanes: list[ProofLane]
    begun: list[LaneReport]
    unproven: list[LaneReport]
    strangers: tuple[RecordDifference, ...] = ()
    began_ms: int = 0
    took_s: float = 0.0


class ProofScope(NamedTuple):
    """Stretches proven before, which need not be read, and the source offsets up to which lanes are read at most.

    `until` None: all that is copied. A partition that `until` does not name is not read at all.
    """

    proven: Mapping[Key, Proven] = {}
    until: Mapping[TopicPartition, int] | None = None


Bounds = dict[TopicPartition, tuple[int, int]]
"""By log: its start offset, and the offset up to which a reader can read it now."""


class _Sights(NamedTuple):
    """Topic ids by lane, and offsets by source or target partition, read for all lanes at once."""

    ids: Mapping[LaneName, tuple[str, str]]
    here: Bounds
    there: Bounds
    since: dict[TopicPartition, int]
    until: Mapping[TopicPartition, int]
    proven: Mapping[Key, Proven]


class ProofSnapshotReader:
    """Both clusters of a flow, open for one proof."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self._flow = flow
        self.clients = clients_of(config, flow.name, CLIENT_ID)
        self._source, self._target = clusters_of(flow, self.clients)
        self._settings = [KafkaSettings(client) for client in self.clients]
        self._maps: MapReader = maps_of(flow, self._source, self._target)
        is_used = flow.faults.leaves_out
        self._quarantine = QuarantineReader(self._target, flow.name.source, is_used=is_used)

    async def read(self, options: ProofOptions, wanted: ProofScope) -> ProofSnapshot:
        """Read the clusters, and choose the stretches to prove.

        Raises NothingToProve, ConfigError, ConnectionLost, BrokerUnreachable.
        """
        names = await self._lanes(options)
        await self._maps.follow()
        refused = by_lane(await self._quarantine.states())  # after the maps: what they pass over has an entry by now
        led = await self._source.leaders([one.source for one in names])
        copies = await self._target.leaders([one.target for one in names])
        sights = _Sights(
            ids=topic_ids(names, led, copies),
            here=await self._bounds(self._source, led, committed=self._flow.fetch.read_committed),
            there=await self._bounds(self._target, copies, committed=True),
            since=await self._at(led, options.from_ms),
            until=await self._until(led, options, wanted),
            proven=wanted.proven,
        )
        topics = [dict.fromkeys(sorted({name[n].topic for name in names}), (_POLICY, _STAMPS)) for n in (0, 1)]
        configs = [await one.configs(topics[n]) for n, one in enumerate(self._settings)]
        found = ProofSnapshot([], [], [])
        for name in names:
            source, target = name
            report = LaneReport(topic=source.topic, partition=source.partition, target_topic=target.topic)
            try:
                if target not in copies or source not in led:
                    raise _Unproven(NO_TARGET)
                lane, report = await self._lane(name, report, sights, options)
            except _Unproven as why:
                start, end = sights.here.get(source, (0, 0))
                unproven = replace(report, unmapped=end - start, verdict=ProofVerdict.UNPROVEN, note=str(why))
                found.unproven.append(unproven)
                continue
            here_is, there_is = (configs[n].found.get(name[n].topic, {}) for n in (0, 1))
            lane.source_compacts, lane.target_compacts = "compact" in _value(here_is), "compact" in _value(there_is)
            _set_aside(lane, refused.get(source, ()), report.source_id)
            lane.stamped = _value(there_is, _STAMPS) == "LogAppendTime"
            found.lanes.append(lane)
            found.begun.append(report)
        if options.to_ms < 0 and wanted.until is None:
            return await self._beyond(found)
        return found

    async def _beyond(self, found: ProofSnapshot) -> ProofSnapshot:
        """Count the offsets beyond the newest positions, and find the records of other writers there."""
        behind = {
            lane.name: BeyondStretch(one.target_to, lane.target_bounds[1], lane.target_bounds[0])
            for lane, one in zip(found.lanes, found.begun, strict=True)
        }
        strangers = await BeyondScan(self._target, self._maps, self._quarantine).find(behind)
        begun = [
            replace(
                one,
                waiting=max(0, lane.source_bounds[1] - one.copied_to),
                behind=max(0, lane.target_bounds[1] - one.target_to),
                strangers=size(strangers.get(lane.name, ())),
            )
            for lane, one in zip(found.lanes, found.begun, strict=True)
        ]
        differences = [one for name, ranges in strangers.items() for one in differences_of(name, ranges)]
        return found._replace(begun=begun, strangers=tuple(differences))

    async def _lanes(self, options: ProofOptions) -> list[LaneName]:
        selection = self._flow.selection
        try:
            wanted = PatternList(options.topics or (".*",))
        except BadPattern as bad:
            raise NothingToProve(str(options.flow), f"--topics: {bad}") from None
        topics = await self._settings[0].topics(None)
        chosen = {name: topics[name] for name in topics if selection.wants(name) and wanted.matches(name)}
        if not chosen:
            raise NothingToProve(str(options.flow), "the flow copies no topic with such a name")
        return selection.lanes({name: topic.partitions for name, topic in chosen.items()})

    async def _bounds(self, cluster: KafkaCluster, led: Collection[TopicPartition], *, committed: bool) -> Bounds:
        names = list(led)
        if not names:
            return {}
        ends = await (cluster.stable_ends(names) if committed else cluster.offsets(names, LATEST))
        starts = await cluster.offsets(names, EARLIEST)
        return {one: (starts[one], max(starts[one], ends[one])) for one in names}

    async def _until(
        self, led: Collection[TopicPartition], options: ProofOptions, wanted: ProofScope
    ) -> Mapping[TopicPartition, int]:
        if wanted.until is None:
            return await self._at(led, options.to_ms)
        return {one: wanted.until.get(one, 0) for one in led}

    async def _at(self, led: Collection[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time; -1 if all records are older; empty if no time is given."""
        return await self._source.offsets(list(led), at_ms) if at_ms >= 0 and led else {}

    async def _lane(
        self, name: LaneName, report: LaneReport, sights: "_Sights", options: ProofOptions
    ) -> tuple[ProofLane, LaneReport]:
        known, head = self._known(name.source)
        begins = known.begins
        assert begins is not None  # a map with a head begins somewhere
        since, until = sights.since.get(name.source, -1), sights.until.get(name.source, -1)
        if options.from_ms >= 0 and since < 0:
            since = head.source_next  # all records are older
        low, high = asked(begins, head, since, until)
        ids = sights.ids[name]
        before = sights.proven.get((name.source.topic, name.source.partition, *ids, head.generation))
        stretch = stretch_of(
            Known(
                name=name,
                begins=begins,
                head=head,
                runs=await self._runs(name.source, max(0, low - 1), high),
                source_bounds=sights.here[name.source],
                target_bounds=sights.there[name.target],
                since=since,
                until=until,
                before=None if options.again else before,
            )
        )
        lane = stretch.lane
        report = replace(
            report,
            source_id=ids[0],
            target_id=ids[1],
            generation=head.generation,
            source_from=lane.source_from,
            source_to=lane.source_to,
            target_from=lane.target_from,
            target_to=lane.target_to,
            proven_from=stretch.proven_from,
            proven_to=lane.source_from,
            not_comparable=stretch.not_comparable,
            unmapped=stretch.unmapped,
            copied_to=head.source_next,
        )
        return lane, report

    def _known(self, lane: TopicPartition) -> tuple[OffsetMap, MapHead]:
        known = self._maps.map_of(lane)
        if known is None or known.head is None:
            raise _Unproven(self._maps.unreadable.get(lane, NO_MAP))
        if not known.numbers(0):
            raise _Unproven(BEHIND)
        return known, known.head

    async def _runs(self, lane: TopicPartition, source_from: int, source_to: int) -> MapColumns:
        try:
            return MapColumns(*await self._maps.runs(lane, source_from, source_to))
        except LookupError:
            raise _Unproven(BEHIND) from None

    async def starts(self, lanes: list[ProofLane]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Read the log starts again: records that retention deleted since are not missing. Raises ConnectionLost."""
        return (
            await self._source.offsets([one.name.source for one in lanes], EARLIEST),
            await self._target.offsets([one.name.target for one in lanes], EARLIEST),
        )

    async def generations(self, lanes: list[ProofLane]) -> list[int]:
        """Read the map generations again: a lane with a new owner may have been copied again. Raises ConnectionLost."""
        await self._maps.follow()
        heads = [self._maps.head(lane.name.source) for lane in lanes]
        return [-1 if head is None else head.generation for head in heads]


def topic_ids(
    names: Iterable[LaneName], led: Mapping[TopicPartition, Leader], copies: Mapping[TopicPartition, Leader]
) -> dict[LaneName, tuple[str, str]]:
    """Return the ids of source and target topic by lane: a copy may have the name of its source topic."""
    both = [name for name in names if name.source in led and name.target in copies]
    return {name: (led[name.source].topic_id, copies[name.target].topic_id) for name in both}


def _value(configs: Mapping[str, ConfigEntry], name: str = _POLICY) -> str:
    return configs[name].value if name in configs else ""


def _set_aside(lane: ProofLane, refused: Iterable[RefusedState], source_id: str) -> None:
    """Note which records of a lane were left out, unless the map knows a copy, and where replayed ones are."""
    ours = [one for one in refused if not one.record.topic_id or one.record.topic_id == source_id]
    lane.left_out = frozenset(one.record.offset for one in ours if not lane.runs.has(one.record.offset))
    marks = [one.mark for one in ours if one.mark is not None]
    lane.replayed = frozenset(mark.target_offset for mark in marks if mark.target_topic == lane.name.target.topic)


class _Unproven(MirrorError):
    """Nothing can be proven of a lane; the message says why."""


@asynccontextmanager
async def reader(config: MirrorConfig, flow: FlowConfig) -> AsyncIterator[ProofSnapshotReader]:
    """Connect to both clusters. Raises BrokerUnreachable, ConfigError."""
    made = ProofSnapshotReader(config, flow)
    async with opened(*made.clients):
        yield made

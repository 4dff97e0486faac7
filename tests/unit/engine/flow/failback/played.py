"""Two clusters in memory that can be copied both ways, a failover between them, and a failback as an operation."""

import asyncio
import struct
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

import msgspec
from crc32c import crc32c

from engine.core.lane.pending_batch import Limits
from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.position_keys import PositionKeys
from engine.flow.failback.lent_configs import keep_tombstones, take_back
from engine.flow.failback.steps import failback_steps
from engine.flow.failback.world import FailbackPorts, FailbackWorld
from engine.flow.groups.map_chain import LaneChain
from engine.flow.operations.driver import OperationDriver
from engine.flow.operations.stints import ClosedRow, MapTopics, Stints
from engine.flow.operations.store import OperationStore
from engine.flow.ownership.alteration import AlterationOptions, Alterations, alter_positions
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import EpochEnd, FetchOptions, Leader, ProducerState
from engine.flow.replication.copier import FlowCopier
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane, last_known
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.services.dr.other_fences import NoFence
from engine.state.state import state_topic
from engine.wire.codecs import NONE
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.dr.failback import FailbackChoice
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation
from policies.groups import GroupSelection
from policies.model import FlowName, LaneName, PartitionSet, TopicPartition
from policies.naming import IdentityNaming
from policies.selection import TopicSelection
from policies.start import Earliest
from policies.sync.config_sync import CreateTopic
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.loans import FakeLoans
from tests.fakes.settings import FakeSettings
from tests.fakes.source_log import ABORT, COMMIT, CONTROL, LEADER_EPOCH, TRANSACTIONAL, SourceBatch, SourceLog
from tests.fakes.target_log import Stored, TargetLog, decoded
from tests.unit.engine.flow.operations.staged import Border, Clusters

FORWARD, BACK = FlowName("A", "B"), FlowName("B", "A")


def positions_topic(source: str) -> str:
    return f"mm2-offsets.{source}.internal"


def options(flow: FlowName) -> FlowOptions:
    return FlowOptions(
        flow=flow,
        deployment_id="d",
        positions_topic=positions_topic(flow.source),
        positions_partitions=1,
        limits=Limits(max_in_flight=2),
        flush_s=0.2,
        fetch=FetchOptions(max_wait_s=0.02),
        takeover_wait_s=0.0,
        refused_retry_s=0.02,
        drain_s=10.0,
    )


class TwoWayLog(TargetLog):
    """A partition that can be copied to and from: it also answers what is asked of a `SourceLog`."""

    def write(self, *names: str) -> None:
        """Append records as an application does, in one batch."""
        records = [Record(index, 1_700_000_000_000, name.encode(), b"v") for index, name in enumerate(names)]
        assert self.append(bytes(encode_batch(records, NONE))).code == 0

    def put(self, **values: str | None) -> None:
        """Append a record per key, each in a batch of its own; None is a tombstone."""
        for key, value in values.items():
            content = None if value is None else value.encode()
            assert (
                self.append(bytes(encode_batch([Record(0, 1_700_000_000_000, key.encode(), content)], NONE))).code == 0
            )

    def clean(self, *keys: str) -> None:
        """Remove the batches of keys, as a cleaner does that has removed their tombstones."""
        self.batches = [
            one for one in self.batches if not one.payload or (decoded(one.payload)[0].key or b"").decode() not in keys
        ]

    def values(self) -> dict[str, str]:
        """Return the value of every key that lives, as a reader of the whole log has it."""
        found: dict[str, str] = {}
        for record in self.records():
            found.pop((record.key or b"").decode(), None)
            if record.value is not None:
                found[(record.key or b"").decode()] = record.value.decode()
        return found

    def names(self, first: int = 0) -> list[str]:
        """Return the keys of the committed records from an offset on."""
        return [name for offset, name in self.placed() if offset >= first]

    def behind(self, name: str) -> int:
        """Return the offset behind a record."""
        return next(offset for offset, key in self.placed() if key == name) + 1

    def placed(self) -> list[tuple[int, str]]:
        """Return the offset and the key of every committed record."""
        return [
            (stored.header.base_offset + record.offset, (record.key or b"").decode())
            for stored in self.batches
            if stored.is_seen
            for record in decoded(stored.payload)
        ]

    def fetch(
        self, offset: int, batches: int, *, committed: bool = True, late: bool = False
    ) -> tuple[bytes, list[tuple[int, int]]]:
        limit = self.last_stable if committed else self.end
        held = [one for one in self.batches if offset < one.header.next_offset <= limit][:batches]
        aborted = [(one.header.producer_id, one.header.base_offset) for one in held if one.aborted]
        return b"".join(map(_bytes, held)), aborted

    def parts_at(self, epoch: int, offset: int) -> tuple[int, int] | None:
        """Return where the log parts from one that was fetched: it has one leader epoch and loses nothing."""
        return None

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Return where the log ends that holds no epoch above this one."""
        return EpochEnd(LEADER_EPOCH, self.end) if epoch == LEADER_EPOCH else EpochEnd(-1, -1)


def _bytes(stored: Stored) -> bytes:
    header, payload = stored.header, stored.payload
    if not payload:
        bits = TRANSACTIONAL | CONTROL
        end = ABORT if header.is_control else COMMIT
        batch = SourceBatch(
            header.base_offset, header.base_offset, (header.base_offset,), header.producer_id, bits, end
        )
        return batch.encode()
    raw = bytearray(payload)
    struct.pack_into(">q", raw, 0, header.base_offset)
    struct.pack_into(">i", raw, 12, LEADER_EPOCH)
    struct.pack_into(">I", raw, 17, crc32c(memoryview(raw)[21:]))
    return bytes(raw)


class TwoWayCluster(FakeCluster):
    """A cluster whose topics are both."""

    def both(self, topic: str, partition: int = 0) -> TwoWayLog:
        where, log = TopicPartition(topic, partition), TwoWayLog()
        self.leader[where] = Leader(1, LEADER_EPOCH, f"id-{topic}-{self.name}")
        self.targets[where], self.sources[where] = log, cast("SourceLog", log)
        return log

    def _remembered(self, partition: TopicPartition) -> list[ProducerState]:
        held = self.sources.pop(partition, None)
        try:
            return super()._remembered(partition)
        finally:
            if held is not None:
                self.sources[partition] = held

    async def read_time(self, partition: TopicPartition, offset: int) -> int:
        return -1


class LinkedSettings(FakeSettings):
    """The settings of a cluster whose topics are its logs; brokers delete a topic's commits with it."""

    def __init__(self, cluster: TwoWayCluster, groups: FakeGroups) -> None:
        super().__init__(cluster.name)
        self._cluster, self._groups, self._made = cluster, groups, 0

    async def delete(self, topic: str, topic_id: str) -> None:
        self._cluster.begun("delete")
        if self._cluster.leader[TopicPartition(topic, 0)].topic_id != topic_id:
            return
        await super().delete(topic, topic_id)
        gone = [one for one in self._cluster.leader if one.topic == topic]
        for where in gone:
            for held in (self._cluster.leader, self._cluster.sources, self._cluster.targets):
                held.pop(where, None)
            for offsets in self._groups.stored.values():
                offsets.pop(where, None)
        self._cluster.begun("deleted")

    async def create(self, change: CreateTopic) -> tuple[str, ...]:
        self._cluster.begun("create")
        is_new = change.target not in self.partitions
        unknown = await super().create(change)
        if is_new:
            self._made += 1
            for number in range(change.partitions):
                self._cluster.both(change.target, number)
                where = TopicPartition(change.target, number)
                told = self._cluster.leader[where]
                self._cluster.leader[where] = msgspec.structs.replace(told, topic_id=f"{told.topic_id}-{self._made}")
        self._cluster.begun("created")
        return unknown


class Guard:
    """What keeps the reverse flow from being run."""

    def __init__(self) -> None:
        self.failed_over, self.says = 1, list[str]()

    async def failed_over_ms(self) -> int:
        return self.failed_over

    async def bar(self) -> None:
        self.says.append("bar")

    async def admit(self) -> None:
        self.says.append("admit")
        self.failed_over = -1


class Played(Clusters):
    """The clusters A and B; topic `t` has the same name on both."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__()
        self.a, self.b = TwoWayCluster("A"), TwoWayCluster("B")
        self.clusters = {FlowSide.SOURCE: self.a, FlowSide.TARGET: self.b}
        for number in range(partitions):
            self.a.both("t", number)
        self.there = [self.b.both("t", number) for number in range(partitions)]
        for cluster, source in ((self.b, "A"), (self.a, "B")):
            cluster.target(positions_topic(source))
            cluster.target(map_topic(source))
            cluster.target(state_topic(source))
        self.groups = {"A": FakeGroups("A"), "B": FakeGroups("B")}
        self.settings: dict[str, FakeSettings] = {"A": LinkedSettings(self.a, self.groups["A"]), "B": FakeSettings("B")}
        for settings in self.settings.values():
            settings.put("t", partitions, retention_ms="5000")
        self.guard = Guard()
        self.loans = FakeLoans()
        self.stints = Stints()
        self.fence = NoFence()
        self.exported: list[str] = []
        self.copiers = 0
        self.choice = FailbackChoice.KEEP
        self.choices: dict[str, object] = {}
        """What the operator chooses beside `failback`'s own."""
        self.began = False
        """Whether a failback was stored."""

    @property
    def here(self) -> list[TwoWayLog]:
        """The partitions of the source, those that were made anew too."""
        found = sorted(where for where in self.a.leader if where.topic == "t")
        return [cast("TwoWayLog", self.a.targets[where]) for where in found]

    # --- before ------------------------------------------------------------------------------------------------------

    async def move(
        self, wanted: Alterations, epochs: dict[TopicPartition, int] | None = None, flow: FlowName = FORWARD
    ) -> None:
        """Set positions of the flow."""
        some = options(flow)
        where = AlterationOptions(
            flow=flow,
            topic=some.positions_topic,
            partitions=1,
            keys=some.position_keys,
            request_timeout_s=some.request_timeout_s,
        )
        assert await alter_positions(self.b if flow == FORWARD else self.a, where, wanted, epochs) == {}

    async def copy(self, *, leaves: bool = True, flow: FlowName = FORWARD) -> None:
        """Copy A to B by the flow; `leaves`: it ends in order, else it is killed with a position that is behind."""
        source, target = (self.a, self.b) if flow == FORWARD else (self.b, self.a)
        copier = FlowCopier(options(flow), source, target, lambda _topic: Earliest())
        names = tuple(LaneName(TopicPartition("t", one), TopicPartition("t", one)) for one in range(len(self.here)))
        self.copiers += 1
        copier.assign(PartitionSet(set_id="s", flow=flow, epoch=self.copiers, lanes=names))
        wanted = [log.end for log in (self.here if flow == FORWARD else self.there)]
        async with asyncio.TaskGroup() as group:
            task = group.create_task(copier.run())
            async with asyncio.timeout(60):
                while [one.source_next for one in copier.progress().lanes] != wanted:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
            if leaves:
                await copier.drain()
            else:
                task.cancel()

    # --- the failback ------------------------------------------------------------------------------------------------

    def world(self) -> FailbackWorld:
        forward = TopicSelection(FORWARD, IdentityNaming("A"), include=("t",))
        back = TopicSelection(BACK, IdentityNaming("B"), include=("t",))
        return FailbackWorld(
            source=FailbackPorts(cluster=self.a, settings=self.settings["A"], groups=self.groups["A"]),
            target=FailbackPorts(cluster=self.b, settings=self.settings["B"], groups=self.groups["B"]),
            forward=options(FORWARD),
            back=options(BACK),
            selection=forward,
            back_selection=back,
            groups=GroupSelection(),
            guard=self.guard,
            fence=self.fence,
            known=self.known,
            feeds=lambda _topic: (),
            forward_maps=lambda: self.maps("A", self.b),
            back_maps=lambda: self.maps("B", self.a),
            export=self.export,
            new_copier=lambda some, source, target: FlowCopier(some, source, target, lambda _topic: Earliest()),
            take_back=lambda: take_back(self.settings["B"], self.loans),
            hold_tombstones=self.hold_tombstones,
            map_topics=MapTopics(
                positions_topic=positions_topic("A"),
                partitions=1,
                connector=options(FORWARD).position_keys.connector,
                leaves_out=False,
            ),
            chains=self.chains,
        )

    async def chains(self, last: Mapping[TopicPartition, ClosedRow]) -> dict[TopicPartition, LaneChain]:
        return msgspec.structs.replace(self.stints, last=last).chains(str, {}, {})

    async def hold_tombstones(self, topics: Collection[str]) -> Mapping[str, str]:
        return (await keep_tombstones(self.settings["B"], self.loans, topics, 30 * 86_400_000)).failed

    async def known(self) -> dict[TopicPartition, KnownLane]:
        selection = TopicSelection(FORWARD, IdentityNaming("A"), include=("t",))
        found = await last_known(self.b, positions_topic("A"), 1, PositionKeys("A"), selection)
        return {one.lane: one for one in found.lanes}

    @staticmethod
    def maps(source: str, cluster: FakeCluster) -> MapReader:
        keys = PositionKeys(source)
        where = MapOptions(positions_topic=positions_topic(source), position_keys=keys, positions_partitions=1)
        return MapReader(where, cluster)

    async def export(self, found: Sequence[SurveyedPartition], folder: str) -> tuple[str, int]:
        records = sum(one.separation.diverged for one in found)
        self.exported.append(f"{folder}: {records}")
        return folder, records

    def drives_back(self, store: OperationStore) -> OperationDriver:
        steps = failback_steps(self.world(), self.choice)
        return OperationDriver(store, "A->B", steps, self, {})

    @asynccontextmanager
    async def failing_back(self, border: Border | None = None) -> AsyncIterator[OperationDriver]:
        async with self.opened(border) as store:
            yield self.drives_back(store)

    def read_on(self, group: str, *names: str) -> None:
        """Let applications write these to the target when the step of the groups begins, and a group read them."""

        def written(_asked: str) -> None:
            if self.says[-1:] == ["do groups"] and names[0] not in self.there[0].names():
                self.there[0].write(*names)
                self.groups["B"].put(group, {TopicPartition("t", 0): self.there[0].behind(names[-1])})

        self.groups["B"].before = written

    def reading(self, cluster: str, group: str, partition: int = 0) -> list[str]:
        """Return what a consumer of the group reads from its commit on."""
        log = (self.here if cluster == "A" else self.there)[partition]
        where = TopicPartition("t", partition)
        return log.names(self.groups[cluster].stored[group][where][0])


def failback(**choices: object) -> DrOperation:
    """Return a failback that has not begun."""
    fields = {"id": "1", "kind": "failback", "source": "A", "target": "B", "who": "ann", "began_ms": 1000}
    chosen = {"choice": "keep", "export": "folder", **choices}
    return msgspec.convert({**fields, "choices": chosen}, DrOperation)

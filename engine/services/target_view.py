"""Reads what the target of one flow stores about the flow, over a connection of its own. Writes nothing."""

from collections.abc import Iterable

import msgspec

from engine.base.opened import Opened
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import Event
from engine.core.reports.drain import Ends
from engine.core.reports.drill_report import DrillReport
from engine.flow.topic_logs.checkpoints import CheckpointLog
from engine.flow.topic_logs.drill_log import DrillLog
from engine.flow.topic_logs.event_log import EventLog, EventOptions
from engine.flow.topic_logs.last_known import LastKnown, stored_state
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.reach import SOURCE_WITHIN_S, open_known_source
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.partition_ends import partition_ends
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import clients_of
from engine.services.maps import last_known_of
from engine.state.event_records import EventRecord
from engine.state.state import Key, Value, events_topic
from policies.model import TopicPartition

CLIENT_ID = "raymirror-look"


class GroupsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many consumer groups have checkpoints, and when the newest one was written (Unix time, ms; -1: none)."""

    groups: int
    newest_ms: int


class FlowTarget(Opened):
    """The target of one flow, as an async context. `clients`: of its source, which is not opened, and of its target.

    Raises BrokerUnreachable if the target does not answer, OtherCluster if it is not the cluster that positions name.
    """

    def __init__(self, flow: FlowConfig, clients: tuple[ClusterClient, ClusterClient]) -> None:
        self._flow = flow
        self._source, self._client = clients
        self._target = KafkaCluster(self._client, request_timeout_s=flow.request_timeout_s)

    async def _open(self) -> None:
        await self._client.open()
        await check_clusters(self._flow, None, self._client)

    async def _close(self) -> None:
        await self._source.close()
        await self._client.close()


class TargetView(FlowTarget):
    """Reads of one flow's target; only `ends` asks the source."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(flow, clients_of(config, flow.name, CLIENT_ID))

    async def positions(self) -> LastKnown:
        """Read how far every partition was copied. Raises what `last_known` raises."""
        return await last_known_of(self._flow, self._target)

    async def state(self) -> dict[Key, Value]:
        """Read the desired state of the flow and its last owner. Raises what `stored_state` raises."""
        return await stored_state(self._target, self._flow.name)

    async def last_drill(self) -> DrillReport | None:
        """Read the report of the last drill, None if there is none. Raises what `stored_state` raises."""
        log = DrillLog(self._target, self._flow.name, self._flow.request_timeout_s)
        if not await log.exists():
            return None
        _, last = await log.read()
        return last

    async def groups(self) -> GroupsSummary:
        """Read which groups have checkpoints. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
        topic = self._flow.naming.checkpoints_topic(self._flow.name.source)
        if not await self._target.leaders([TopicPartition(topic, 0)]):
            return GroupsSummary(groups=0, newest_ms=-1)
        log = CheckpointLog(self._target, topic, self._flow.request_timeout_s)
        try:
            await log.read_stamped()
        finally:
            await log.close()
        return GroupsSummary(groups=len(log.written), newest_ms=max(log.stamps.values(), default=-1))

    async def events(self, kinds: Iterable[type[Event]], since_ms: int = 0) -> list[EventRecord]:
        """Read the events since an instant (Unix time), oldest first. Raises what `EventLog.read` raises."""
        topic = events_topic(self._flow.name.source)
        if not await self._target.leaders([TopicPartition(topic, 0)]):
            return []
        log = EventLog(EventOptions(flow=self._flow.name, topic=topic), self._target, kinds)
        try:
            return await log.read(since_ms)
        finally:
            await log.close()

    async def ends(self, known: LastKnown) -> Ends:
        """Ask for the source's end offsets in bounded time; `gone` if it does not answer, or is another cluster."""
        gone = await open_known_source(self._flow, self._source, self._client)
        if gone:
            return Ends(gone=gone)
        lanes = [one.lane for one in known.lanes]
        return await partition_ends(self._source, self._flow.selection, lanes, SOURCE_WITHIN_S)

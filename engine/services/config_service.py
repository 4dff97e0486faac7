"""Builds the sync of configs and ACLs of one flow, over connections of its own."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import NamedTuple

from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.config_report import ConfigReport
from engine.flow.config_history.advance import HistoryFlow
from engine.flow.config_history.expected import HistoryRules
from engine.flow.config_history.keeper import ConfigHistory
from engine.flow.config_sync.audit import AuditTrail
from engine.flow.config_sync.loop import ConfigLoopOptions, ConfigSyncLoop
from engine.flow.config_sync.planned import SparkPlanner
from engine.flow.config_sync.planning import ConfigSyncOptions
from engine.flow.config_sync.round_desk import RoundDesk
from engine.flow.config_sync.round_messages import ClusterIds, pack_memory, unpack_memory
from engine.flow.config_sync.sync import ConfigSync
from engine.flow.failback.lent_configs import NotTakenBack, take_back
from engine.flow.ports.ports import Cluster
from engine.flow.topic_logs.lent_log import LentLog
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.sameness import refuse_one_cluster
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.admin.unfenced_settings import UnfencedSettings
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import clients_of, opened
from engine.services.loop_service import LoopService
from engine.state.moves import moves_of
from engine.state.state import MOVE_SCOPE, StateCodec, desired_of, state_topic
from policies.model import TopicPartition
from policies.sync.config_sync import Known


def config_sync_options(flow: FlowConfig, *, within_one: bool = False) -> ConfigSyncOptions:
    """Return the rules of a flow's configuration; `within_one`: both of its aliases lead to one cluster."""
    return ConfigSyncOptions(
        replication_factor=flow.replication_factor,
        configs=flow.config_rules,
        acls=flow.acl_rules,
        within_one=within_one,
    )


def history_flow(flow: FlowConfig) -> HistoryFlow:
    """Return what the history of a flow's configs needs of its configuration."""
    rules = HistoryRules(configs=flow.config_rules, syncs=flow.config_sync.configs)
    return HistoryFlow(name=flow.name, selection=flow.acl_rules.selection, rules=rules)


@asynccontextmanager
async def config_sync(
    config: MirrorConfig, flow: FlowConfig, client_id: str, handed_over: Collection[str] | None = None
) -> AsyncIterator[ConfigSync]:
    """Connect to both clusters of a flow, for one comparison or more.

    `handed_over`: topics whose copies are left alone; None: those that `topics_handed_over` finds.

    Raises BrokerUnreachable, OtherCluster, ConfigError; SameCluster if both are one cluster and that is not allowed;
    and what `topics_handed_over` raises: else nobody knows which copies must not be touched.
    """
    source, target = clients_of(config, flow.name, client_id)
    async with opened(source, target):
        within_one = await refuse_one_cluster(flow, source, target)
        await check_clusters(flow, source, target)
        options = config_sync_options(flow, within_one=within_one)
        if handed_over is None:
            there = KafkaCluster(target, request_timeout_s=flow.request_timeout_s)
            handed_over = await topics_handed_over(flow, there)
        yield ConfigSync(options, _unfenced(flow, source, target), KafkaSettings(target), handed_over)


async def topics_handed_over(flow: FlowConfig, target: Cluster) -> frozenset[str]:
    """Return the topics whose producers write to the copies since a move; none if producers write to other topics.

    By what a running mirror keeps to, and by the list of moves: changelogs move with their Streams application.
    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
    """
    name, topic = flow.name, state_topic(flow.name.source)
    if flow.naming.shows_source or not await target.leaders([TopicPartition(topic, 0)]):
        return frozenset()
    records = await target.read_records(topic)
    listed = StateCodec(name, topic, MOVE_SCOPE).decode(records)
    wanted = desired_of(StateCodec(name, topic).decode(records))
    return frozenset((*wanted.moved_topics, *moves_of(listed).topics))


def _unfenced(flow: FlowConfig, source: ClusterClient, target: ClusterClient) -> UnfencedSettings:
    there, here = (KafkaCluster(one, request_timeout_s=flow.request_timeout_s) for one in (target, source))
    return UnfencedSettings(source, here, there, flow.name)


class PackedMemory(NamedTuple):
    """A packed memory, and a digest of it: equal memories have equal ids."""

    id: str
    data: bytes


class ConfigService(LoopService[ConfigReport]):
    """The ConfigSyncLoop of a flow; it asks `may_write` before each round and before each write.

    `desk`: where Spark finds rounds to plan; None if the loop plans all of them. With a `history`, configs are compared
    for it also if they are not synced.
    """

    def __init__(
        self,
        config: MirrorConfig,
        flow: FlowConfig,
        audit: AuditTrail | None = None,
        history: ConfigHistory | None = None,
    ) -> None:
        clients = clients_of(config, flow.name, f"raymirror|{flow.name}|configs")
        source, target = _unfenced(flow, *clients), KafkaSettings(clients[1])
        wanted = flow.config_sync
        options = ConfigLoopOptions(
            flow=flow.name,
            configs_s=wanted.configs_s if wanted.configs or history is not None else None,
            sets_configs=wanted.configs,
            acls_s=wanted.acls_s if wanted.acls else None,
        )
        sync = ConfigSync(config_sync_options(flow), source, target)
        self.desk = RoundDesk() if wanted.on_spark else None
        planner = SparkPlanner(flow.name, self.desk, self._ids) if self.desk is not None else None
        self._loop = ConfigSyncLoop(options, sync, audit, planner, history)
        super().__init__(self._loop, clients)
        self._flow, self._there = flow, target
        there = KafkaCluster(clients[1], request_timeout_s=flow.request_timeout_s)
        self._loans = LentLog(there, flow.name, flow.request_timeout_s)
        self._loop.restore = self._take_back
        self._packed: tuple[Known, PackedMemory] | None = None

    @property
    def moved(self) -> Callable[[], Collection[str]]:
        """The topics whose producers have moved to the target; the Metadata actor sets it."""
        return self._loop.moved

    @moved.setter
    def moved(self, ask: Callable[[], Collection[str]]) -> None:
        self._loop.moved = ask

    async def _take_back(self) -> None:
        """Take back what a failover has lent to topics of the target. Raises NotTakenBack, and what `take_back` raises.

        Not while the flow is paused: a failover that runs now may just have lent it.
        """
        if await self._loans.read() and await self._loans.is_copied():
            failed = await take_back(self._there, self._loans)
            if failed:
                raise NotTakenBack(self._flow.name.target, failed)

    async def close(self) -> None:
        """Disconnect."""
        await self._loans.close()
        await super().close()

    def _ids(self) -> ClusterIds:
        return ClusterIds(*(client.identity.id for client in self._clients))

    @property
    def memory(self) -> PackedMemory:
        """What source topics set when they were last compared, for the process that replaces this one."""
        known = self._loop.known
        if self._packed is None or self._packed[0] is not known:  # it changes once a round
            data = pack_memory(known)
            self._packed = known, PackedMemory(sha256(data).hexdigest()[:16], data)
        return self._packed[1]

    def remember(self, memory: bytes) -> None:
        """Add the memory of the process that this one replaces."""
        self._loop.remember(unpack_memory(memory))

    async def _prepare(self) -> None:
        """Refuse a cluster that is not the cluster that positions name."""
        source, target = self._clients
        await refuse_one_cluster(self._flow, source, target)
        await check_clusters(self._flow, source, target)

"""What can be known about a mirror before it starts: clusters, topics, permissions, collisions. Changes nothing."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack

import msgspec

from engine.clients import client_for
from engine.core.commit_records import TOPIC as COMMITS_TOPIC
from engine.core.map_blocks import map_topic
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError
from engine.flow.ports import LATEST
from engine.idle_patterns import Places, idle_groups, idle_topics, source_groups
from engine.kafka.admin import create_topic, producer_expiries_s
from engine.kafka.cluster import ClusterClient
from engine.kafka.faults import TRANSACTIONAL_ID_AUTHORIZATION_FAILED, error_name
from engine.kafka.gateway import KafkaCluster
from engine.kafka.internal_topics import MAP_CONFIGS, POSITIONS_CONFIGS, check_policy
from engine.kafka.metadata import Metadata
from engine.kafka.rights import missing_rights
from engine.settings import ConfigWarning, FlowConfig, MirrorConfig
from engine.tasks import run_all
from policies.model import FlowName, TopicPartition
from policies.topology import colliding_targets, find_loop
from policies.words import counted

CLIENT_ID = "raymirror-check"
GRANT = "grant Write and Describe on the transactional ids that begin with 'raymirror' (a prefixed ACL)"


class TopicPreview(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that would be copied; `exists` tells whether the target has it already."""

    source: str
    target: str
    partitions: int
    exists: bool


class FlowPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What one flow would copy; `polled` is why commits of groups will not be read as they are made, `unfenced` what is
    not granted on transactional ids, without which the target does not refuse a former owner, `unread_expiry` the
    target's brokers that do not say how long they remember producers.
    """

    flow: FlowName
    topics: tuple[TopicPreview, ...]
    left_out: int
    polled: str = ""
    unfenced: tuple[str, ...] = ()
    unread_expiry: tuple[int, ...] = ()
    unreachable: tuple[str, ...] = ()
    """Brokers of both clusters that cannot be connected to from here, each with why and what waits for it."""
    idle: tuple[ConfigWarning, ...] = ()
    """Patterns that match no topic, or no consumer group, of the source, and what was likely meant."""

    def unfenced_text(self) -> str:
        """Say what lacks and what would be right; empty where nothing does."""
        if not self.unfenced:
            return ""
        return (
            f"cluster {self.flow.target!r} does not grant us {' and '.join(self.unfenced)} on transactional ids: a"
            f" former owner of a partition is found out, but not refused by the broker; {GRANT}"
        )

    def expiry_text(self) -> str:
        """Say which brokers keep their producers' expiry to themselves, and what that costs; empty where none does."""
        if not self.unread_expiry:
            return ""
        return (
            f"producer.id.expiration.ms may not be read of {counted(len(self.unread_expiry), 'broker')} of cluster"
            f" {self.flow.target!r} ({', '.join(map(str, self.unread_expiry))}), so a batch of unknown outcome always"
            " waits for a new barrier of its partition instead of going out again; grant DescribeConfigs on the cluster"
        )


class TopicCollision(MirrorError):
    """Two flows would write one target topic."""

    def __init__(self, cluster: str, topic: str, one: str, other: str) -> None:
        super().__init__(cluster, topic, one, other)
        self.cluster, self.topic, self.one, self.other = cluster, topic, one, other

    def __str__(self) -> str:
        return (
            f"flows {self.one} and {self.other} would both write topic {self.topic!r} on cluster {self.cluster!r};"
            " give one of them other topics, or DefaultReplicationPolicy"
        )


class TopicLoop(MirrorError):
    """Flows would copy a topic round and round."""

    def __init__(self, loop: str) -> None:
        super().__init__(loop)
        self.loop = loop

    def __str__(self) -> str:
        return f"{self.loop}; use DefaultReplicationPolicy for these flows, or topics that do not overlap"


def _refuse_loops(config: MirrorConfig, flows: Iterable[FlowPreview]) -> None:
    topics = sorted({topic.source for flow in flows for topic in flow.topics})
    loop = find_loop([flow.selection for flow in config.flows], topics)
    if loop is not None:
        raise TopicLoop(str(loop))


async def preview(
    config: MirrorConfig, bear: Callable[[BrokerUnreachable], None] | None = None
) -> tuple[FlowPreview, ...]:
    """Ask both clusters of every flow what would be copied.

    `bear` is told of each cluster that does not answer, and its flows are left out, as long as one flow is left.
    Raises ClusterAway, KafkaRefusal (the target does not let us create what is missing, would forget positions,
    or denies transactions to a flow in transactions), TopicCollision, TopicLoop, ConfigError (a placeholder that does
    not resolve).
    """
    async with AsyncExitStack() as stack:
        used = sorted({alias for flow in config.flows for alias in flow.name})
        clients = {alias: client_for(config.clusters[alias], CLIENT_ID) for alias in used}
        for client in clients.values():
            stack.push_async_callback(client.close)
        metadata: dict[str, Metadata] = {}
        absent: dict[str, BrokerUnreachable] = {}

        async def ask(alias: str) -> None:
            try:
                await clients[alias].open()
                metadata[alias] = await clients[alias].metadata(None)
            except BrokerUnreachable as unreachable:
                absent[alias] = unreachable

        await run_all(*map(ask, used))
        away = {alias: await clients[alias].unreachable(found.brokers) for alias, found in metadata.items()}
        present = [flow for flow in config.flows if not absent.keys() & set(flow.name)]
        for _, unreachable in sorted(absent.items()):
            if bear is None or not present:
                raise unreachable
            bear(unreachable)
        flows = tuple(_preview_flow(flow, metadata, config.places) for flow in present)
        _refuse_collisions(flows)
        _refuse_loops(config, flows)
        for flow, previewed in zip(present, flows, strict=True):
            await _try_creating(clients[flow.name.target], flow, previewed, metadata[flow.name.target])
        return tuple(
            [
                msgspec.structs.replace(
                    one,
                    polled=await _polled(clients[flow.name.source], flow, metadata[flow.name.source]),
                    unfenced=await _unfenced(clients[flow.name.target], flow),
                    unread_expiry=await _unread_expiry(clients[flow.name.target]),
                    unreachable=tuple(_unreachable(one, metadata, away)),
                    idle=(*one.idle, *await _idle_groups(clients[flow.name.source], flow, config.places)),
                )
                for flow, one in zip(present, flows, strict=True)
            ]
        )


async def _idle_groups(client: ClusterClient, flow: FlowConfig, places: Places) -> tuple[ConfigWarning, ...]:
    groups = await source_groups(client, flow, places)
    return () if groups is None else tuple(idle_groups(flow, groups, places))


def _unreachable(flow: FlowPreview, metadata: dict[str, Metadata], away: dict[str, dict[int, str]]) -> Iterator[str]:
    """Say which brokers a flow needs that cannot be reached, why, and how many of its partitions they lead."""
    names = {
        flow.flow.source: [one.source for one in flow.topics],
        flow.flow.target: [one.target for one in flow.topics],
    }
    for alias, topics in names.items():
        described = [metadata[alias].topics[topic] for topic in topics if topic in metadata[alias].topics]
        for node, why in away[alias].items():
            led = sum(one.leader == node for topic in described for one in topic.partitions.values())
            yield (
                f"broker {node} of cluster {alias!r} cannot be reached from here: {why}; {counted(led, 'partition')} of"
                " this flow that it leads, and consumer groups that it coordinates, wait until it can: its"
                " advertised.listeners must be reachable from every machine that copies"
            )


async def _unfenced(client: ClusterClient, flow: FlowConfig) -> tuple[str, ...]:
    """Return what is not granted on transactional ids. Raises KafkaRefusal where the flow cannot do without."""
    asked = f"raymirror.{flow.name}.check"
    try:
        missing = await missing_rights(client, asked)
    except ConnectionLost:  # a broker that is just going away: it tells nothing
        return ()
    if missing and flow.commit_s:
        code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        where = f"{' and '.join(missing)} on transactional id {asked} on cluster {flow.name.target!r}"
        raise KafkaRefusal(where, code, error_name(code), f"exactly-once mode needs it: {GRANT}")
    return missing


async def _unread_expiry(client: ClusterClient) -> tuple[int, ...]:
    expiries = await producer_expiries_s(client)
    return tuple(sorted(node for node, expiry_s in expiries.items() if expiry_s is None))


async def _polled(client: ClusterClient, flow: FlowConfig, source: Metadata) -> str:
    """Return why groups will be polled where that is not asked for; a topic that is not there yet tells nothing."""
    groups, described = flow.groups, source.topics.get(COMMITS_TOPIC)
    asked = groups.on_commit and (groups.checkpoints or groups.commits)
    if not asked or described is None or not described.partitions:
        return ""
    first, cluster = TopicPartition(COMMITS_TOPIC, 0), KafkaCluster(client)
    try:
        end = (await cluster.offsets([first], LATEST))[first]
        async for _ in cluster.read_log(first, end, end + 1, committed=False):
            break
    except KafkaRefusal as refusal:
        return str(refusal)
    except (BrokerUnreachable, ConnectionLost):
        return ""  # who leads the partition is named as unreachable
    return ""


def _preview_flow(flow: FlowConfig, metadata: dict[str, Metadata], places: Places) -> FlowPreview:
    source, target = metadata[flow.name.source].topics, metadata[flow.name.target].topics
    wanted = sorted(topic for topic in source if flow.selection.wants(topic))
    topics = []
    for topic in wanted:
        name = flow.naming.remote_topic(flow.name.source, topic)
        partitions = len(source[topic].partitions)
        topics.append(TopicPreview(source=topic, target=name, partitions=partitions, exists=name in target))
    left_out, idle = len(source) - len(wanted), tuple(idle_topics(flow, sorted(source), places))
    return FlowPreview(flow=flow.name, topics=tuple(topics), left_out=left_out, idle=idle)


def _refuse_collisions(flows: Iterable[FlowPreview]) -> None:
    wanted = {flow.flow: {topic.source: topic.target for topic in flow.topics} for flow in flows}
    for cluster, topic, one, other in colliding_targets(wanted):
        raise TopicCollision(cluster, topic, str(one), str(other))


async def _try_creating(client: ClusterClient, flow: FlowConfig, previewed: FlowPreview, target: Metadata) -> None:
    """Let the target judge, creating nothing, positions and map topic (or their policy) and the first missing other."""
    for own, configs in ((flow.positions_topic, POSITIONS_CONFIGS), (map_topic(flow.name.source), MAP_CONFIGS)):
        if own in target.topics:
            await check_policy(client, own, configs)
        else:
            partitions, replicas = flow.positions_partitions, flow.positions_replication_factor
            await create_topic(client, own, partitions, replicas, configs, validate_only=True)
    missing = next((topic for topic in previewed.topics if not topic.exists), None)
    if missing is not None:
        await create_topic(client, missing.target, missing.partitions, flow.replication_factor, {}, validate_only=True)

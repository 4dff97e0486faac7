"""Composition: the ends of a flow's partitions compared, in a process of its own; it reads and writes nothing."""

from collections.abc import Collection

from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.position.end_offsets import EndsRow
from engine.flow.surveys.end_comparison import EndComparison
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import client_for
from engine.services.maps import maps_of
from policies.model import LaneName, TopicPartition

CLIENT_ID = "raymirror-compare-ends"


async def compare_ends_of(config: MirrorConfig, flow: FlowConfig, topics: Collection[str]) -> list[EndsRow]:
    """Compare every partition of the flow's topics, or of those named. Raises BrokerUnreachable, ConnectionLost.

    Also OtherCluster, KafkaRefusal; MirrorError where a map is not readable.
    """
    clients = [client_for(config.clusters[alias], CLIENT_ID) for alias in flow.name]
    try:
        for client in clients:
            await client.open()
        await check_clusters(flow, *clients)
        source, target = (KafkaCluster(client, request_timeout_s=flow.request_timeout_s) for client in clients)
        found = await KafkaSettings(clients[0]).topics(None)
        lanes = [
            LaneName(TopicPartition(name, number), TopicPartition(flow.selection.target_topic(name), number))
            for name, topic in sorted(found.items())
            if flow.selection.wants(name) and (not topics or name in topics)
            for number in range(topic.partitions)
        ]
        return await EndComparison(source, target, maps_of(flow, source, target)).compare(lanes)
    finally:
        for client in clients:
            await client.close()

"""Compares the end offsets of a flow's partitions on both clusters, for a command. Writes nothing."""

from collections.abc import Collection

from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.position.end_offsets import EndsRow
from engine.flow.surveys.end_comparison import EndComparison
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.settings import KafkaSettings
from engine.services.clients import clients_of, opened
from engine.services.maps import clusters_of, maps_of, quarantine_reader_of

CLIENT_ID = "raymirror-compare-ends"


async def compare_ends_of(config: MirrorConfig, flow: FlowConfig, topics: Collection[str]) -> list[EndsRow]:
    """Compare every partition of `topics`, or of all topics of the flow if it is empty.

    Raises BrokerUnreachable, ConnectionLost, OtherCluster, KafkaRefusal; MirrorError if a map is not readable.
    """
    clients = clients_of(config, flow.name, CLIENT_ID)
    async with opened(*clients):
        await check_clusters(flow, *clients)
        source, target = clusters_of(flow, clients)
        found = await KafkaSettings(clients[0]).topics(None)
        lanes = flow.selection.lanes({n: one.partitions for n, one in found.items() if not topics or n in topics})
        quarantine = quarantine_reader_of(flow, target)
        return await EndComparison(source, target, maps_of(flow, source, target), quarantine).compare(lanes)

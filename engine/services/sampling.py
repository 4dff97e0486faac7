"""Builds the writer of one copier's progress samples, and creates the topics of samples and lag on the target."""

from collections.abc import Callable

from engine.config.settings import FlowConfig
from engine.core.events.events import AnyEvent
from engine.core.reports.progress import FlowProgress
from engine.core.reports.progress_sample import lag_topic, progress_topic
from engine.flow.ports.ports import Cluster
from engine.flow.replication.sample_writer import SampleOptions, SampleWriter
from engine.kafka.admin.internal_topics import LAG_CONFIGS, PROGRESS_CONFIGS, ensure_internal_topic
from engine.kafka.client.cluster import ClusterClient

PARTITIONS = 1
"""Partitions of the progress topic: with one, a late reader gets the samples of all copiers in order of time."""


def sample_writer(
    flow: FlowConfig,
    copier_id: str,
    client: ClusterClient,
    cluster: Cluster,
    latest: Callable[[], FlowProgress | None],
    tell: Callable[[AnyEvent], None],
) -> SampleWriter | None:
    """Build the writer over the copier's own target client; None if samples are switched off."""
    if not flow.progress_s:
        return None
    topic = progress_topic(flow.name.source)

    async def make_topics() -> None:
        await ensure_topics(client, flow)

    options = SampleOptions(
        flow=flow.name, copier=copier_id, topic=topic, partitions=PARTITIONS, every_s=flow.progress_s
    )
    return SampleWriter(options, cluster, latest, make_topics, tell)


async def ensure_topics(client: ClusterClient, flow: FlowConfig) -> None:
    """Create the topics of a flow's samples and of its lag on the target, or check existing ones.

    Raises KafkaRefusal, BrokerUnreachable, ConnectionLost.
    """
    source, replicas = flow.name.source, flow.positions_replication_factor
    await ensure_internal_topic(client, progress_topic(source), replicas, PROGRESS_CONFIGS, partitions=PARTITIONS)
    await ensure_internal_topic(client, lag_topic(source), replicas, LAG_CONFIGS)

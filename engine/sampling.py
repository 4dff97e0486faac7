"""Composition: the progress samples of one copier on their target cluster."""

from collections.abc import Callable

from engine.core.events import AnyEvent
from engine.core.progress import FlowProgress
from engine.core.progress_sample import lag_topic, progress_topic
from engine.flow.ports import Cluster
from engine.flow.sample_writer import SampleTerms, SampleWriter
from engine.kafka.cluster import ClusterClient
from engine.kafka.internal_topics import LAG_CONFIGS, PROGRESS_CONFIGS, ensure_internal_topic
from engine.settings import FlowConfig

PARTITIONS = 1
"""Of the progress topic: a reader that has fallen behind meets the samples of all copiers in the order of time."""


def sample_writer(
    flow: FlowConfig,
    copier_id: str,
    client: ClusterClient,
    cluster: Cluster,
    latest: Callable[[], FlowProgress | None],
    tell: Callable[[AnyEvent], None],
) -> SampleWriter | None:
    """Make the writer over the copier's own target client; None where no samples are asked for."""
    if not flow.progress_s:
        return None
    topic, replicas = progress_topic(flow.name.source), flow.positions_replication_factor

    async def make_topics() -> None:
        await ensure_internal_topic(client, topic, replicas, PROGRESS_CONFIGS, partitions=PARTITIONS)
        await ensure_internal_topic(client, lag_topic(flow.name.source), replicas, LAG_CONFIGS)

    terms = SampleTerms(flow=flow.name, copier=copier_id, topic=topic, partitions=PARTITIONS, every_s=flow.progress_s)
    return SampleWriter(terms, cluster, latest, make_topics, tell)

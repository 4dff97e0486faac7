"""The job that keeps the history of a flow's lag, for as long as its mirror runs."""

import asyncio
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.core.event_base import Event
from engine.core.progress_events import LagCheckpointLost
from engine.core.progress_sample import progress_topic
from engine.jobs.history_files import HistoryFiles
from engine.jobs.kafka_options import kafka_options
from engine.jobs.lag import has_checkpoint, keep_going
from engine.jobs.lag_terms import LagReport, LagTerms, checkpoint_uri, history_uri
from engine.jobs.storage import Storage, needed
from engine.kafka.cluster import ClusterClient
from engine.sampling import ensure_topics
from engine.secrets import handshake_options
from engine.settings import MirrorConfig
from policies.model import FlowName

CLIENT_ID = "raymirror-lag"


def run(
    spark: SparkSession,
    terms: LagTerms,
    config: MirrorConfig,
    storage: Storage | None,
    stop: threading.Event,
    note: Callable[[Event], None],
) -> LagReport:
    """Keep the history until `stop` is set.

    Raises NoStorage, LagQueryFailed, ConfigError, KafkaRefusal, BrokerUnreachable, ConnectionLost, OSError.
    """
    place = needed(storage, "the history of lag")
    asyncio.run(_make_topics(config, terms.flow))
    if lost := lost_checkpoint(place, terms.flow):
        note(lost)
    options = kafka_options(config.clusters[terms.flow.target])
    return keep_going(spark, terms, place, options, note, stop)


def lost_checkpoint(storage: Storage, flow: FlowName) -> LagCheckpointLost | None:
    """Tell of a checkpoint that is gone although a query has written history. Raises OSError, HistoryDamaged."""
    uri = checkpoint_uri(storage, flow)
    if has_checkpoint(uri) or not HistoryFiles(history_uri(storage, flow)).commits():
        return None
    return LagCheckpointLost(flow=flow, checkpoint=uri, topic=progress_topic(flow.source))


async def _make_topics(config: MirrorConfig, name: FlowName) -> None:
    """Make the topics of samples and of lag, as copiers do: who comes first."""
    cluster = config.clusters[name.target]
    client = ClusterClient(cluster.alias, list(cluster.bootstrap), handshake_options(cluster, CLIENT_ID))
    try:
        await client.open()
        await ensure_topics(client, config.flow(name))
    finally:
        await client.close()

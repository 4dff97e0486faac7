"""The job that writes the history of a flow's lag, for as long as its mirror runs."""

import asyncio
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage, needed
from engine.core.events.event_base import Event
from engine.core.events.progress_events import LagCheckpointLost, OldTablesFound
from engine.core.reports.progress_sample import progress_topic
from engine.jobs.lag.batches import writer_of
from engine.jobs.lag.checkpoint import drop_checkpoint, has_checkpoint
from engine.jobs.lag.options import LagOptions, LagReport, checkpoint_uri, lag_table_uri
from engine.jobs.lag.query import LagQueryFailed, keep_going
from engine.jobs.runtime.idle_wait import IdleWait
from engine.jobs.runtime.kafka_options import kafka_options
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_history import OldHistory, is_unconverted, old_history_uri
from engine.services.clients import asking_client, opened
from engine.services.sampling import ensure_topics
from policies.model import FlowName

CLIENT_ID = "raymirror-lag"
TRIES = 3
"""If a query ends this many times before its first batch, while the target answers, it cannot use its checkpoint."""
PAUSE_S = 2.0


def run(
    spark: SparkSession,
    options: LagOptions,
    config: MirrorConfig,
    storage: Storage | None,
    stop: threading.Event,
    note: Callable[[Event], None],
    idle: IdleWait,
) -> LagReport:
    """Write the history until `stop` is set.

    Raises NoStorage, LagQueryFailed, ConfigError, KafkaRefusal, BrokerUnreachable, ConnectionLost, OSError.
    """
    place = needed(storage, "the history of lag")
    uri = checkpoint_uri(place, options.flow)

    def begin_anew(what: str) -> None:
        note(LagCheckpointLost(flow=options.flow, checkpoint=uri, topic=progress_topic(options.flow.source), what=what))
        drop_checkpoint(uri)

    asyncio.run(_make_topics(config, options.flow))
    if is_unconverted(old := old_history_uri(place, options.flow)):
        note(OldTablesFound(flow=options.flow, place=old, what=OldHistory.what, storage=place.uri))
    if is_lost(place, options.flow):
        begin_anew("is gone")
    login = config.flow(options.flow).target_client.login  # that of the copiers, which write the samples
    target_options = kafka_options(config.clusters[options.flow.target].for_client(login))
    return with_checkpoint(
        lambda: keep_going(spark, options, place, target_options, note, stop, idle), uri, begin_anew, stop
    )


def is_lost(storage: Storage, flow: FlowName) -> bool:
    """Whether a checkpoint is gone although a query has written history. Raises OSError, TableError, NewerFormat."""
    table = Table(lag_table_uri(storage), LAG)
    written = table.exists() and table.committed(writer_of(flow)) is not None
    return written and not has_checkpoint(checkpoint_uri(storage, flow))


def with_checkpoint(
    keep: Callable[[], LagReport], uri: str, begin_anew: Callable[[str], None], stop: threading.Event
) -> LagReport:
    """Run a query; if it cannot use its checkpoint, drop that once and start from scratch. Raises LagQueryFailed."""
    tries = 0
    while True:
        try:
            return keep()
        except LagQueryFailed as failed:
            if failed.batches or not has_checkpoint(uri):
                raise
            tries += 1
            if tries == TRIES:
                begin_anew(f"cannot be used any more ({failed.why})")
            elif stop.wait(PAUSE_S):
                raise


async def _make_topics(config: MirrorConfig, name: FlowName) -> None:
    """Create the topics of samples and of lag, unless a copier has created them already."""
    client = asking_client(config, name.target, CLIENT_ID)
    async with opened(client):
        await ensure_topics(client, config.flow(name))

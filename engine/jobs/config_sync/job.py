"""Plans one round of config and ACL sync on a mirror's Spark.

    topics of the source -> describe_sources (mapPartitions) -> DataFrame of the source --+
                                                   |                                      +-- join -> verdict -> plan
                              describe_copies (mapPartitions) -> DataFrame of the copies -+

Tasks only read. The plan is the report of the job; the supervisor takes it to the Metadata process, which applies it.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.base.errors import MirrorError
from engine.config.settings import MirrorConfig
from engine.flow.config_history.look import ConfigLook
from engine.flow.config_sync.planning import Compared, merged, sync_plan
from engine.flow.config_sync.reading import ComparedAcls
from engine.flow.config_sync.round_messages import RoundPlan, RoundRequest, cut, unpack_memory
from engine.jobs.config_sync.describe import (
    UNASKED,
    SourceRow,
    TaskInput,
    TopicRow,
    describe_acls,
    describe_copies,
    describe_sources,
    topics_of,
)
from engine.jobs.config_sync.verdict import JoinedRow, unpack_verdict, verdict
from engine.jobs.runtime.core_budget import CoreBudget
from engine.jobs.runtime.spark_errors import reason_of
from engine.services.config_service import config_sync_options
from policies.sync.config_sync import Known, TopicState

TASK_TOPICS, MOST_TASKS = 1_000, 64
"""Topics of one task at least; and tasks of one stage at most. Each task connects anew."""
LARGE_TOPICS = 20_000
"""From so many topics on, a round asks for all executors: smaller ones end before an executor that starts is of use."""
SOURCE = (
    "topic string, copy string, partitions int, replicas int, known binary, configs binary, why string, defaults binary"
)
COPIES = (
    "copy string, copy_partitions int, copy_replicas int, copy_configs binary, copy_why string, copy_defaults binary"
)


class RoundFailed(MirrorError):
    """A round could not be planned: why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


def run(spark: SparkSession, options: RoundRequest, config: MirrorConfig, share: CoreBudget) -> RoundPlan:
    """Plan a round. Raises RoundFailed, ConfigError, BrokerUnreachable, ConnectionLost."""
    flow = config.flow(options.flow)
    reach = TaskInput(
        flow=flow.name,
        source=config.clusters[flow.name.source],
        target=config.clusters[flow.name.target],
        ids=options.clusters,
        options=config_sync_options(flow),
        source_tuning=flow.source_admin,
        target_tuning=flow.target_admin,
        whole=options.whole,
    )
    known = unpack_memory(options.memory)
    topics = asyncio.run(topics_of(reach))
    found, acls = Compared(known=known), ComparedAcls()
    is_large = len(topics) >= LARGE_TOPICS
    most_tasks = share.most_tasks_when_large if is_large else share.most_tasks
    try:
        if options.configs:
            with share.large_job() if is_large else nullcontext():
                found = compare_configs(spark, reach, topics, known, tasks_for(len(topics), most_tasks))
        if options.acls:
            acls = _compare_acls(spark, reach, list(topics))
    except (Py4JJavaError, PySparkException) as error:
        raise RoundFailed(f"Spark: {reason_of(error)}") from None
    return cut(sync_plan(found, acls.plan, acls.unread, acls.no_authorizer), found.known)


def tasks_for(topics: int, most: int) -> int:
    """Return the number of tasks that describe topics; `most`: the cores that batch jobs may use, 0: any number."""
    return max(1, min(math.ceil(topics / TASK_TOPICS), most or MOST_TASKS, MOST_TASKS))


def compare_configs(
    spark: SparkSession, reach: TaskInput, topics: Mapping[str, TopicState], known: Known, tasks: int
) -> Compared:
    """Describe both sides, join them and plan. Raises RoundFailed, and errors of Spark."""
    if not topics:
        return Compared(look=ConfigLook() if reach.whole else None)
    rows = [
        TopicRow(
            name, state.partitions, state.replicas, msgspec.msgpack.encode(own) if (own := known.get(name)) else b""
        )
        for name, state in topics.items()
    ]
    asked = spark.sparkContext.parallelize(rows, tasks)
    source = _frame(spark, asked.mapPartitions(partial(describe_sources, reach)), SOURCE)
    try:
        _refuse(source.where("topic = ''").select("why"))
        described = source.where("why = ''").rdd.map(_source_row)
        copies = _frame(spark, described.mapPartitions(partial(describe_copies, reach)), COPIES)
        try:
            _refuse(copies.where("copy = ''").select("copy_why"))
            joined = source.join(copies, "copy", "left").rdd.map(_joined_row)
            return complete(joined.mapPartitions(partial(verdict, reach.options, whole=reach.whole)).collect())
        finally:
            copies.unpersist()
    finally:
        source.unpersist()


def complete(verdicts: Iterable[bytes]) -> Compared:
    """Put packed verdicts together. Raises RoundFailed if the tasks before them did not describe every topic.

    An executor that dies takes its described topics along. Spark then asks the clusters for them again, in the stage
    that needs them: nothing has looked at those rows.
    """
    found = merged(map(unpack_verdict, verdicts))
    if why := found.unread.get(UNASKED):
        raise RoundFailed(why)
    return found


def _frame(spark: SparkSession, rows: Any, schema: str) -> DataFrame:
    """Make a DataFrame that is computed once: its rows cost requests to brokers."""
    made: DataFrame = spark.createDataFrame(rows, schema, verifySchema=False)
    return made.persist(StorageLevel.MEMORY_AND_DISK)


def _refuse(failures: DataFrame) -> None:
    """Raise RoundFailed if a task could not ask a cluster; this also computes the DataFrame behind."""
    if found := failures.collect():
        raise RoundFailed(found[0][0])


def _source_row(row: Any) -> SourceRow:
    plain = row.asDict()
    packed = {name: bytes(plain[name]) for name in ("known", "configs", "defaults")}
    return SourceRow(**{**plain, **packed})


def _joined_row(row: Any) -> JoinedRow:
    return JoinedRow(**row.asDict())


def _compare_acls(spark: SparkSession, reach: TaskInput, topics: list[str]) -> ComparedAcls:
    asked = spark.sparkContext.parallelize(topics, 1)
    ((packed, why),) = asked.mapPartitions(partial(describe_acls, reach)).collect()
    if why:
        raise RoundFailed(why)
    return msgspec.msgpack.decode(packed, type=ComparedAcls)

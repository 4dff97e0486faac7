"""Real MirrorMaker 2 of the same Kafka release, dedicated mode, as connect-mirror-maker.sh starts it."""

from collections.abc import Mapping

from bench.systems.launch import Job, Launch, write_properties
from deploy.local.tools import SERVER_FLAGS, java_command

_HEAP_MIB = 2048
"""-Xmx2G is connect-mirror-maker.sh's own default."""
REPLICATION_KEYS = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)
"""Every replication factor of MM2 and of the Connect worker in it."""
_MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"


def launch_default(job: Job, more: Mapping[str, str] | None = None) -> Launch:
    """MM2 with nothing set but the addresses, the topic and replication factors of 1, and what a bench asks for."""
    return _launch(job, more or {})


def launch_tuned(job: Job, more: Mapping[str, str] | None = None) -> Launch:
    """MM2 with what its users tune for throughput: tasks, fetch sizes, producer batches in the source's codec.

    `more` wins over it.
    Source clients take `ALIAS.consumer.*`, the data producer `FLOW.producer.override.*` (it is Connect's, not MM2's).
    """
    consumer, producer = f"{job.alias}.consumer", f"{job.alias}->target.producer.override"
    return _launch(
        job,
        {
            "tasks.max": "2",
            f"{consumer}.fetch.min.bytes": "1048576",
            f"{consumer}.fetch.max.bytes": "104857600",
            f"{consumer}.max.partition.fetch.bytes": "8388608",
            f"{consumer}.max.poll.records": "10000",
            f"{consumer}.receive.buffer.bytes": "-1",
            f"{producer}.batch.size": "262144",
            f"{producer}.linger.ms": "50",
            f"{producer}.buffer.memory": "134217728",
            f"{producer}.max.request.size": "8388608",
            f"{producer}.send.buffer.bytes": "-1",
            f"{producer}.compression.type": job.backlog.codec,
            f"{producer}.enable.idempotence": "true",
            f"{producer}.max.in.flight.requests.per.connection": "5",
            **(more or {}),
        },
    )


def _launch(job: Job, more: Mapping[str, str]) -> Launch:
    file = write_properties(job, more)
    return Launch(command=tuple(java_command(_MAIN_CLASS, str(file), heap_mib=_HEAP_MIB, flags=SERVER_FLAGS)))

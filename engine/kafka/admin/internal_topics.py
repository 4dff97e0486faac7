"""Creates internal topics, MM2's as MM2 does; refuses existing topics of raymirror that would lose their records."""

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.kafka.admin.admin import create_topic, describe_topic_configs
from engine.kafka.admin.hidden_topics import refused_by
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import (
    AUTHORIZATION,
    INVALID_PARTITIONS,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from policies.sync.acl_sync import Operation
from policies.words import counted

_POLICY = "cleanup.policy"
_INVALID_CONFIG = 40
_MM2_REPLICAS = 3
_HOUR_MS = 3_600_000
POSITIONS_KEY = "offset.storage.replication.factor"
"""The setting of the replication factor of all of raymirror's own topics."""
HEARTBEATS_KEY = "heartbeats.topic.replication.factor"
CHECKPOINTS_KEY = "checkpoints.topic.replication.factor"
SYNCS_KEY = "offset-syncs.topic.replication.factor"
HEARD_S = 30.0
"""How long brokers may take to learn of a topic that the controller has: a starting broker reads its metadata log."""

STATE_CONFIGS = {_POLICY: "compact", "segment.ms": str(_HOUR_MS)}
"""Owners renew their entry every few seconds. The cleaner skips the active segment, so segments are short."""
EVENTS_CONFIGS = {
    _POLICY: "compact,delete",
    "retention.ms": str(7 * 24 * _HOUR_MS),
    "min.compaction.lag.ms": str(24 * _HOUR_MS),
    "segment.ms": str(24 * _HOUR_MS),
}
"""All events stay for a day; the last event of each kind and subject stays for a week."""
POSITIONS_CONFIGS = {_POLICY: "compact", "segment.bytes": str(1 << 20)}
"""A new owner of a lane reads its partition to the end. The cleaner skips the active segment, so segments are small."""
PROGRESS_CONFIGS = {
    _POLICY: "delete",
    "retention.ms": str(6 * _HOUR_MS),
    "segment.ms": str(_HOUR_MS),
    "message.timestamp.type": "LogAppendTime",
}
"""Six hours are enough to notice that no reader runs; a reader that lost its place starts at the oldest record.
LogAppendTime adds the brokers' time to the copiers' time, so that a copier with a wrong clock is noticed."""
LAG_CONFIGS = {_POLICY: "compact", "segment.ms": str(_HOUR_MS)}
"""Every lane is written every few seconds. The cleaner skips the active segment, so segments are short."""
MAP_CONFIGS = {_POLICY: "compact", "segment.bytes": str(16 << 20)}
MM2_CONFIGS = {_POLICY: "compact"}
QUARANTINE_CONFIGS = {_POLICY: "compact", "max.message.bytes": str(100 << 20)}
"""Records above the limit of their copies must fit. More than 100 MiB no broker takes in one request (its default of
`socket.request.max.bytes`)."""
QUARANTINE_PARTITIONS = 3
"""One for entries, one for marks, and one for the contents of records (`core/refused/entries.py`)."""
_NO_SUCH_CONFIG = frozenset({_INVALID_CONFIG, 44})


async def ensure_internal_topic(
    client: ClusterClient, topic: str, replication_factor: int, configs: dict[str, str], *, partitions: int = 1
) -> bool:
    """Create a topic with `partitions` partitions, or check an existing one; return whether it was created.

    Raises KafkaRefusal with what to change, and ConnectionLost if no broker knows a topic that exists.
    """
    found, hidden = await _partitions(client, topic)
    if not found and await create_topic(client, topic, partitions, replication_factor, configs, key=POSITIONS_KEY):
        return True
    attempt, give_up_at = 0, now_s() + HEARD_S
    while not found:  # the controller has the topic; brokers learn of it a little later
        if hidden is not None:
            raise hidden
        if now_s() > give_up_at:
            where = f"topic {topic} on cluster {client.alias!r}"
            raise ConnectionLost(f"{where} exists, but the brokers still do not know it after {HEARD_S:g} s")
        attempt += 1
        await pause(backoff_s(attempt))
        found, hidden = await _partitions(client, topic)
    check_partitions(client, topic, found, partitions, how_to_recreate(partitions, configs))
    await check_policy(client, topic, configs)
    return False


async def ensure_quarantine_topic(client: ClusterClient, topic: str, replication_factor: int) -> None:
    """Create or check the quarantine topic; where a cluster allows no such record size, with the cluster's own limit.

    Raises what `ensure_internal_topic` raises.
    """
    configs, partitions = QUARANTINE_CONFIGS, QUARANTINE_PARTITIONS
    try:
        await ensure_internal_topic(client, topic, replication_factor, configs, partitions=partitions)
    except KafkaRefusal as refusal:
        if refusal.code not in _NO_SUCH_CONFIG:
            raise
        only_policy = {_POLICY: configs[_POLICY]}
        await ensure_internal_topic(client, topic, replication_factor, only_policy, partitions=partitions)


async def _partitions(client: ClusterClient, topic: str) -> tuple[int, KafkaRefusal | None]:
    """Return the number of partitions, 0 if brokers show none; and the refusal if they would not show the topic."""
    metadata = await client.metadata([topic])
    found = metadata.topics.get(topic)
    return len(found.partitions) if found is not None else 0, refused_by(client, metadata, topic, Operation.WRITE)


def how_to_recreate(partitions: int, configs: dict[str, str]) -> str:
    """Return what to do with a topic that has another number of partitions."""
    return f"delete it, or create it again with {counted(partitions, 'partition')} and {_POLICY}={configs[_POLICY]}"


def check_partitions(client: ClusterClient, topic: str, found: int, partitions: int, right: str) -> None:
    """Check the number of partitions. Raises KafkaRefusal with what would be `right`."""
    if found != partitions:
        what = f"has {counted(found, 'partition')}, but needs {partitions}"
        raise KafkaRefusal(f"topic {topic} on cluster {client.alias!r}", INVALID_PARTITIONS, what, right)


async def check_policy(client: ClusterClient, topic: str, configs: dict[str, str]) -> str:
    """Check that the cleanup policy is that of `configs`; return why it is not known if a right is missing, else "".

    Raises KafkaRefusal with what to change.
    """
    wanted, where = configs[_POLICY], f"topic {topic} on cluster {client.alias!r}"
    try:
        policy = await _policy(client, topic)
    except KafkaRefusal as refusal:
        if refusal.code in AUTHORIZATION:
            return f"cannot check that {where} has {_POLICY}={wanted}, without which it loses records: {refusal}"
        raise
    if policy is not None and set(policy.split(",")) != set(wanted.split(",")):
        raise KafkaRefusal(where, _INVALID_CONFIG, f"has {_POLICY}={policy}", f"set {_POLICY}={wanted} on the topic")
    return ""


def mm2_replicas(asked: int, brokers: int) -> int:
    """Return the replicas of an MM2 topic; for 0 it is MM2's three, or one per broker if there are fewer."""
    return asked or min(_MM2_REPLICAS, brokers)


async def ensure_mm2_topic(client: ClusterClient, topic: str, replication_factor: int, key: str) -> None:
    """Create a compacted topic of one partition for MM2's records; an existing topic stays as it is.

    `replication_factor` 0: MM2's three, or one per broker if there are fewer. If raymirror is not permitted to create
    a topic that it may not see, or the broker cannot, this assumes like MM2 (MirrorUtils.createCompactedTopic) that the
    topic exists. Raises KafkaRefusal for other refusals.
    """
    found = (await client.metadata([topic])).topics.get(topic)
    if found is not None and found.partitions:
        return
    replicas = mm2_replicas(replication_factor, len(client.nodes))
    try:
        await create_topic(client, topic, 1, replicas, MM2_CONFIGS, key=key)
    except KafkaRefusal as refusal:
        is_hidden = found is not None and found.error_code in AUTHORIZATION
        if refusal.code != UNSUPPORTED_VERSION and not (refusal.code in AUTHORIZATION and is_hidden):
            raise


async def _policy(client: ClusterClient, topic: str) -> str | None:
    """Return a topic's cleanup policy; None if brokers cannot be asked, or do not know the topic yet.

    Raises KafkaRefusal.
    """
    try:
        configs = (await describe_topic_configs(client, [topic]))[topic]
    except KafkaRefusal as refusal:
        if refusal.code in {UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION}:
            return None
        raise
    return configs[_POLICY].value.replace(" ", "") if _POLICY in configs else None

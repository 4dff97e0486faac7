"""Internal topics: ours are refused where they would lose what is in them, MM2's are made as MM2 makes them."""

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.kafka.admin.admin import create_topic, describe_topic_configs
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import AUTHORIZATION, INVALID_PARTITIONS, UNKNOWN_TOPIC_OR_PARTITION
from policies.words import counted

_POLICY = "cleanup.policy"
_INVALID_CONFIG, _UNSUPPORTED_VERSION = 40, 35
_MM2_REPLICAS = 3
_HOUR_MS = 3_600_000
POSITIONS_KEY = "offset.storage.replication.factor"
"""The setting that all topics of our own have their replication factor from."""
HEARTBEATS_KEY = "heartbeats.topic.replication.factor"
CHECKPOINTS_KEY = "checkpoints.topic.replication.factor"
SYNCS_KEY = "offset-syncs.topic.replication.factor"
HEARD_S = 30.0
"""How long brokers may take to hear of a topic that the controller has: a broker that starts reads its metadata log."""

STATE_CONFIGS = {_POLICY: "compact", "segment.ms": str(_HOUR_MS)}
"""Renewals make a record every few seconds; the cleaner leaves the active segment alone, so it is a short one."""
EVENTS_CONFIGS = {
    _POLICY: "compact,delete",
    "retention.ms": str(7 * 24 * _HOUR_MS),
    "min.compaction.lag.ms": str(24 * _HOUR_MS),
    "segment.ms": str(24 * _HOUR_MS),
}
"""Everything for a day, then the last of each kind per subject for a week."""
POSITIONS_CONFIGS = {_POLICY: "compact", "segment.bytes": str(1 << 20)}
"""Every new owner of a lane reads its partition to the end, and the cleaner leaves the active segment alone."""
PROGRESS_CONFIGS = {
    _POLICY: "delete",
    "retention.ms": str(6 * _HOUR_MS),
    "segment.ms": str(_HOUR_MS),
    "message.timestamp.type": "LogAppendTime",
}
"""As long as it takes to notice that nobody reads: a reader that lost its place begins there again. Brokers' time is
beside the copiers' own, so that one whose clock is wrong is noticed."""
LAG_CONFIGS = {_POLICY: "compact", "segment.ms": str(_HOUR_MS)}
"""Every lane is written anew every few seconds; the cleaner leaves the active segment alone, so it is a short one."""
MAP_CONFIGS = {_POLICY: "compact", "segment.bytes": str(16 << 20)}
MM2_CONFIGS = {_POLICY: "compact"}


async def ensure_internal_topic(
    client: ClusterClient, topic: str, replication_factor: int, configs: dict[str, str], *, partitions: int = 1
) -> bool:
    """Create a topic of so many partitions, or check one that is there; say whether it was created.

    Raises KafkaRefusal saying what to change, and ConnectionLost where no broker knows a topic that is there.
    """
    found = await _partitions(client, topic)
    if not found and await create_topic(client, topic, partitions, replication_factor, configs, key=POSITIONS_KEY):
        return True
    attempt, give_up_at = 0, now_s() + HEARD_S
    while not found:  # the controller has it: brokers hear of it a little later
        if now_s() > give_up_at:
            where = f"topic {topic} on cluster {client.alias!r}"
            raise ConnectionLost(f"{where} is there, but the brokers asked have not heard of it for {HEARD_S:g} s")
        attempt += 1
        await pause(backoff_s(attempt))
        found = await _partitions(client, topic)
    check_partitions(client, topic, found, partitions, made_anew(partitions, configs))
    await check_policy(client, topic, configs)
    return False


async def _partitions(client: ClusterClient, topic: str) -> int:
    found = (await client.metadata([topic])).topics.get(topic)
    return len(found.partitions) if found is not None else 0


def made_anew(partitions: int, configs: dict[str, str]) -> str:
    """Advise what to do with a topic that has another number of partitions."""
    return f"delete it, or make it anew with {counted(partitions, 'partition')} and {_POLICY}={configs[_POLICY]}"


def check_partitions(client: ClusterClient, topic: str, found: int, partitions: int, right: str) -> None:
    """Refuse a topic of another number of partitions. Raises KafkaRefusal with what would be `right`."""
    if found != partitions:
        what = f"has {counted(found, 'partition')}, needed is {partitions}"
        raise KafkaRefusal(f"topic {topic} on cluster {client.alias!r}", INVALID_PARTITIONS, what, right)


async def check_policy(client: ClusterClient, topic: str, configs: dict[str, str]) -> None:
    """Refuse a topic whose cleanup policy is another than in `configs`. Raises KafkaRefusal saying what to change."""
    wanted, where = configs[_POLICY], f"topic {topic} on cluster {client.alias!r}"
    policy = await _policy(client, topic)
    if policy is not None and set(policy.split(",")) != set(wanted.split(",")):
        raise KafkaRefusal(where, _INVALID_CONFIG, f"has {_POLICY}={policy}", f"set {_POLICY}={wanted} on the topic")


def mm2_replicas(asked: int, brokers: int) -> int:
    """Return how many replicas a topic of MM2's gets; 0 asked: MM2's three, or as many as there are brokers."""
    return asked or min(_MM2_REPLICAS, brokers)


async def ensure_mm2_topic(client: ClusterClient, topic: str, replication_factor: int, key: str) -> None:
    """Create a compacted topic of one partition for records of MM2's; one that is there stays as it is.

    `replication_factor` 0: MM2's three, or as many as there are brokers. May we not create it, or can the broker not,
    it is taken to be there, as by MM2 (MirrorUtils.createCompactedTopic). Raises KafkaRefusal for other refusals.
    """
    found = (await client.metadata([topic])).topics.get(topic)
    if found is not None and found.partitions:
        return
    replicas = mm2_replicas(replication_factor, len(client.nodes))
    try:
        await create_topic(client, topic, 1, replicas, MM2_CONFIGS, key=key)
    except KafkaRefusal as refusal:
        if refusal.code not in AUTHORIZATION and refusal.code != _UNSUPPORTED_VERSION:
            raise


async def _policy(client: ClusterClient, topic: str) -> str | None:
    """Return a topic's cleanup policy, None where we may not ask, or it is too new for the broker that we asked."""
    try:
        configs = (await describe_topic_configs(client, [topic]))[topic]
    except KafkaRefusal as refusal:
        if refusal.code in AUTHORIZATION or refusal.code == UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
    return configs[_POLICY].value.replace(" ", "") if _POLICY in configs else None

"""The text of a broker's properties file and of its log configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.ports import HOST

_LOGGING = """\
status = error
appenders = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{{ISO8601}}] %p %m (%c)%n
rootLogger.level = {root}
rootLogger.appenderRefs = console
rootLogger.appenderRef.console.ref = console
"""
# This logger would fill a log with one line per partition.
_LEVELS = {"state.change.logger": "WARN"}
# The names of topics' configs that brokers know by another name (Kafka's ServerTopicConfigSynonyms). A broker takes any
# name, and ignores one that it does not know.
_BROKERS_NAMES = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "cleanup.policy": "log.cleanup.policy",
    "preallocate": "log.preallocate",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
}


@dataclass(frozen=True, kw_only=True)
class BrokerPorts:
    """The ports of one broker."""

    node_id: int
    port: int
    controller_port: int


def encode_properties(
    me: BrokerPorts, everyone: list[BrokerPorts], data_folder: Path, overrides: Mapping[str, str]
) -> str:
    """The properties file of a combined broker and controller; overrides win, line by line.

    Raises ValueError for an override that has the name of a topic's config, which brokers ignore.
    """
    for name in overrides:
        if name in _BROKERS_NAMES:
            raise ValueError(f"{name} is a topic's config, which brokers ignore; theirs is {_BROKERS_NAMES[name]}")
    replicas = min(3, len(everyone))
    in_sync = 2 if len(everyone) >= 3 else 1
    voters = ",".join(f"{peer.node_id}@{HOST}:{peer.controller_port}" for peer in everyone)
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(me.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{me.port},CONTROLLER://{HOST}:{me.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{me.port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "log.dirs": str(data_folder),
        # Kafka's defaults for these are 3 and need three brokers.
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        # The default of 50 partitions each costs seconds on two cores at the first commit or transaction.
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        # A killed broker that restarts is refused until its old session ends: 9 s by default.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        # A lone consumer should not wait 3 s for others.
        "group.initial.rebalance.delay.ms": "0",
    }
    properties.update(overrides)
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def encode_logging(levels: Mapping[str, str], root: str = "INFO") -> str:
    """The log configuration of one of Kafka's programs: level `root`, and other `levels` by logger name."""
    named = enumerate((_LEVELS | dict(levels)).items())
    lines = [f"logger.own{at}.name = {name}\nlogger.own{at}.level = {level}\n" for at, (name, level) in named]
    return _LOGGING.format(root=root) + "".join(lines)

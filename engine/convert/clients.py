"""Settings of one Kafka client: which belong to its connection, and the names of the clients before Kafka 0.9."""

from collections.abc import Iterable

from engine.convert.draft import Draft
from engine.convert.model import Given

SERVERS = "bootstrap.servers"
_CONNECTION = ("ssl.", "sasl.", "security.protocol")

CONSUMER_MARKS = (
    "group.id",
    "auto.offset.reset",
    "zookeeper.connect",
    "key.deserializer",
    "value.deserializer",
    "fetch.",
    "max.poll.",
    "max.partition.fetch.bytes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "enable.auto.commit",
    "auto.commit.",
    "isolation.level",
    "exclude.internal.topics",
    "consumer.",
    "client.rack",
    "offsets.storage",
)
"""How keys begin that only a consumer has."""
PRODUCER_MARKS = (
    "acks",
    "key.serializer",
    "value.serializer",
    "serializer.class",
    "compression.",
    "batch.",
    "linger.ms",
    "buffer.memory",
    "max.request.size",
    "max.in.flight.requests.per.connection",
    "max.block.ms",
    "enable.idempotence",
    "delivery.timeout.ms",
    "partitioner.",
    "retries",
    "metadata.broker.list",
    "producer.",
    "request.required.acks",
    "queue.buffering.",
    "transactional.id",
)
"""How keys begin that only a producer has."""

_OLD_NAMES = {
    "metadata.broker.list": SERVERS,
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "auto.commit.enable": "enable.auto.commit",
}
_OLD_RESETS = {"smallest": "earliest", "largest": "latest"}
_OLD_CLIENTS = (
    "zookeeper.",
    "queued.max.",
    "rebalance.",
    "queue.",
    "socket.receive.",
    "socket.send.",
    "socket.timeout.",
    "socket.buffersize",
    "offsets.",
    "dual.commit.",
    "consumer.",
    "num.consumer.",
    "refresh.leader.",
    "topic.metadata.",
    "batch.num.",
    "producer.type",
    "serializer.class",
    "key.serializer.class",
    "compressed.topics",
    "message.send.",
)
_GONE = "a setting of the Scala clients, which Kafka removed in 2.0; raymirror needs no counterpart"


def is_connection(key: str) -> bool:
    """Whether a client's key is one of its connection: addresses, TLS, login."""
    return key == SERVERS or key.startswith(_CONNECTION)


def carry_client(draft: Draft, settings: Iterable[tuple[str, Given]], alias: str, below: str) -> None:
    """Carry the settings of a client of a cluster: those of its connection to the cluster, the others below a key.

    `below` is the place of the client's other settings, e.g. `A.consumer`.
    """
    for name, value in settings:
        new = _OLD_NAMES.get(name, name)
        why = f"{name} is the old name" if new != name else ""
        if new == "auto.offset.reset" and value.text.strip() in _OLD_RESETS:
            value, why = Given(_OLD_RESETS[value.text.strip()], value.origin), f"{value.text.strip()} is the old word"
        if is_connection(new):
            draft.carry(f"{alias}.{new}", value, why)
        elif name.startswith(_OLD_CLIENTS):
            draft.drop_needless(value.origin, _GONE, alias)
        else:
            draft.carry(f"{below}.{new}", value, why)

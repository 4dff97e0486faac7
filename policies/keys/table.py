"""The table of every key: what raymirror reads, and the answer to each key that a class of Kafka 4.3.1 defines."""

import enum
from collections.abc import Iterator, Mapping

import msgspec

from policies.keys import clients, clusters, configs, copying, groups, http, mirror, security, topics, worker
from policies.keys.kafka_keys import (
    ADMIN,
    CLIENT_COMMON,
    CONNECTOR,
    CONSUMER,
    FAMILIES,
    PRODUCER,
    WORKER,
    KeyFate,
    Ruling,
)
from policies.keys.read_key import ReadKey

SECTIONS: tuple[tuple[str, tuple[ReadKey, ...]], ...] = tuple(
    (one.TITLE, one.ROWS)
    for one in (clusters, security, topics, configs, groups, worker, clients, copying, mirror, http)
)
"""The keys that are read, by subject."""
READ_KEYS: tuple[ReadKey, ...] = tuple(row for _, rows in SECTIONS for row in rows)


class KeyAnswer(enum.Enum):
    """The answer to a key of Kafka."""

    READ = "read"
    READ_OTHERWISE = "read, not quite as in MM2"
    NEEDLESS = "not needed"
    DIFFERENT = "warned of"
    REFUSED = "refused"


_BY_FATE = {
    KeyFate.NEEDLESS: KeyAnswer.NEEDLESS,
    KeyFate.DIFFERENT: KeyAnswer.DIFFERENT,
    KeyFate.UNSUPPORTED: KeyAnswer.REFUSED,
    KeyFate.MISTYPED: KeyAnswer.REFUSED,
}


def answer_of(ruling: Ruling) -> KeyAnswer:
    """Return the answer that a ruling gives."""
    return _BY_FATE[ruling.fate]


FAMILY_ANSWERS = tuple((begin, _BY_FATE[ruling.fate], ruling.sentence) for begin, ruling in FAMILIES)
"""The answers to keys without a fixed name, by the beginning of the name."""


class KafkaTable(msgspec.Struct, frozen=True):
    """Keys that some classes of Kafka define together. `levels`: where raymirror reads such keys."""

    title: str
    classes: tuple[str, ...]
    levels: tuple[str, ...]
    unread: Mapping[str, Ruling]

    def read(self, name: str) -> ReadKey | None:
        """Return the row of a key that is read."""
        return next((row for row in self.rows() if row.name == name), None)

    def rows(self) -> Iterator[ReadKey]:
        """Yield the rows of Kafka's keys that are read."""
        for row in READ_KEYS:
            if not row.is_own and not set(row.each_level).isdisjoint(self.levels):
                yield row

    def answer(self, name: str) -> tuple[KeyAnswer, str] | None:
        """Return the answer to a key, and how or why; None if the table does not know the key."""
        if (row := self.read(name)) is not None:
            return (KeyAnswer.READ_OTHERWISE, row.differs) if row.differs else (KeyAnswer.READ, "")
        if (ruling := self.unread.get(name)) is not None:
            return _BY_FATE[ruling.fate], ruling.sentence
        return next(((answer, why) for begin, answer, why in FAMILY_ANSWERS if name.startswith(begin)), None)

    def answers(self) -> Iterator[tuple[str, KeyAnswer, str]]:
        """Yield every key that the table knows by name, with its answer."""
        for name in sorted({*(row.name for row in self.rows()), *self.unread}):
            found = self.answer(name)
            assert found is not None
            yield name, *found


KAFKA_TABLES = (
    KafkaTable(
        "MM2's connectors, filters and replication policies",
        (
            "MirrorConnectorConfig",
            "MirrorSourceConfig",
            "MirrorSourceTaskConfig",
            "MirrorCheckpointConfig",
            "MirrorCheckpointTaskConfig",
            "MirrorHeartbeatConfig",
            "ConnectorConfig",
            "SourceConnectorConfig",
            "TaskConfig",
            "DefaultTopicFilter",
            "DefaultGroupFilter",
            "DefaultConfigPropertyFilter",
            "DefaultReplicationPolicy",
        ),
        ("flow", "filter"),
        CONNECTOR,
    ),
    KafkaTable(
        "MM2's driver, Connect's workers and their REST servers",
        ("MirrorMakerConfig", "WorkerConfig", "DistributedConfig", "RestServerConfig"),
        ("top", "storage", "worker"),
        WORKER,
    ),
    KafkaTable("Connections of all clients", ("MirrorClientConfig",), ("cluster", "login"), CLIENT_COMMON),
    KafkaTable("Consumers", ("ConsumerConfig",), ("consumer",), CONSUMER),
    KafkaTable("Producers", ("ProducerConfig",), ("producer",), PRODUCER),
    KafkaTable("Admin clients", ("AdminClientConfig",), ("admin",), ADMIN),
)
"""The classes of Kafka 4.3.1 (short names) whose keys a file of MM2 may have."""

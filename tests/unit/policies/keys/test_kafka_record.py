"""Every key that a class of Kafka 4.3.1 defines has its answer, no key is invented, defaults are Kafka's or said."""

import re

import pytest

from policies.keys.table import KAFKA_TABLES, READ_KEYS, KafkaTable
from tests.harness.kafka_classes import recorded

RECORD = recorded()
ELSEWHERE = {
    "SinkConnectorConfig": "MM2's connectors are sources",
    "StandaloneConfig": "MM2's workers form a group",
    "TopicCreationConfig": "its names stand behind topic.creation.GROUP.",
}
"""Classes whose keys a file of MM2 cannot have, and why."""
NOT_IN_4_3 = {
    "add.source.alias.to.metrics",
    "use.incremental.alter.configs",
    "internal.key.converter",
    "internal.value.converter",
    "rest.host.name",
    "rest.port",
    "offset.storage.file.filename",
    "internal.leave.group.on.close",
    "internal.auto.downgrade.txn.commit",
    "auto.include.jmx.reporter",
    "retries",
    "default.api.timeout.ms",
}
"""Of former releases, of workers that are no cluster, and what files say of the wrong client."""
TABLES = {name: table for table in KAFKA_TABLES for name in table.classes}


def keys_of(table: KafkaTable) -> set[str]:
    return {key for name in table.classes for key in RECORD.get(name, {})}


def test_every_class_is_in_a_table_or_has_its_reason() -> None:
    assert RECORD.keys() - TABLES.keys() == ELSEWHERE.keys()
    assert TABLES.keys() - RECORD.keys() == {"DefaultReplicationPolicy"}, "it reads its keys without a ConfigDef"


@pytest.mark.parametrize("name", sorted(TABLES.keys() & RECORD.keys()))
def test_every_key_has_its_answer(name: str) -> None:
    tables = (TABLES[name], TABLES["MirrorClientConfig"], TABLES["MirrorSourceConfig"])
    assert [key for key in RECORD[name] if not any(table.answer(key) for table in tables)] == []


@pytest.mark.parametrize("table", KAFKA_TABLES, ids=lambda table: table.title)
def test_no_key_is_invented(table: KafkaTable) -> None:
    assert table.unread.keys() - keys_of(table) <= NOT_IN_4_3


@pytest.mark.parametrize("level", ["consumer", "producer", "admin"])
def test_a_default_that_is_not_kafkas_is_named(level: str) -> None:
    kafkas = {key: default for table in KAFKA_TABLES if level in table.levels for key, default in flat(table).items()}
    for row in READ_KEYS:
        if level in row.each_level and not row.differs and re.fullmatch(r"-?\d+", row.default):
            assert row.default == kafkas[row.name], row.name


def flat(table: KafkaTable) -> dict[str, str]:
    return {key: default for name in table.classes for key, default in RECORD.get(name, {}).items()}

"""The table of every key: each has one answer, and each answer has its reason."""

import pytest

from policies.keys.kafka_keys import CONSUMER, FAMILIES, KeyFate
from policies.keys.read_key import PLACES, ReadKey
from policies.keys.table import KAFKA_TABLES, READ_KEYS, KafkaTable, KeyAnswer

CONNECTORS, DRIVER, CONNECTIONS, CONSUMERS, PRODUCERS, ADMINS = KAFKA_TABLES


def test_a_key_is_read_by_one_row_per_level() -> None:
    rows = [(row.name, level) for row in READ_KEYS for level in row.each_level]
    assert len(rows) == len(set(rows))
    assert {level for _, level in rows} <= PLACES.keys()


@pytest.mark.parametrize("row", READ_KEYS, ids=lambda row: f"{row.name}, {row.levels}")
def test_a_row_says_something(row: ReadKey) -> None:
    assert row.default
    assert row.meaning or row.differs


@pytest.mark.parametrize("table", KAFKA_TABLES, ids=lambda table: table.title)
def test_no_key_is_read_and_ruled_out_at_once(table: KafkaTable) -> None:
    assert {row.name for row in table.rows()} & table.unread.keys() == set()


@pytest.mark.parametrize("table", KAFKA_TABLES, ids=lambda table: table.title)
def test_what_is_not_simply_read_has_its_reason(table: KafkaTable) -> None:
    answers = list(table.answers())
    assert answers
    assert [name for name, answer, why in answers if not why and answer is not KeyAnswer.READ] == []


@pytest.mark.parametrize(
    ("table", "name", "answer"),
    [
        (CONSUMERS, "fetch.min.bytes", KeyAnswer.READ),
        (CONSUMERS, "isolation.level", KeyAnswer.READ_OTHERWISE),
        (CONSUMERS, "check.crcs", KeyAnswer.NEEDLESS),
        (PRODUCERS, "metric.reporters", KeyAnswer.DIFFERENT),
        (CONNECTORS, "transforms", KeyAnswer.REFUSED),
        (DRIVER, "rest.anything", KeyAnswer.NEEDLESS),
    ],
)
def test_the_answer(table: KafkaTable, name: str, answer: KeyAnswer) -> None:
    found = table.answer(name)
    assert found is not None
    assert found[0] is answer


def test_what_kafka_does_not_define_has_no_answer() -> None:
    assert PRODUCERS.answer("my.setting") is None
    assert CONNECTORS.answer("raymirror.copiers") is None


def test_a_refusal_says_what_would_be_right() -> None:
    refused = [ruling for table in KAFKA_TABLES for ruling in table.unread.values()]
    assert all(ruling.right for ruling in refused if ruling.fate is KeyFate.UNSUPPORTED)
    assert CONSUMER["interceptor.classes"].sentence.endswith("; remove the key")
    assert all(ruling.fate is not KeyFate.UNSUPPORTED for _, ruling in FAMILIES)

"""Target topics: their settings at creation, and effects that show in the data."""

import pytest

from policies.sync.creation import Change, Create, Grow, compare, plan_topic

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("source", "target", "change"),
    [(3, None, Create(3, 2, {})), (3, 1, Grow(3)), (3, 3, None), (3, 5, None)],
)
def test_plan(source: int, target: int | None, change: Change | None) -> None:
    assert plan_topic(source, target, 2, {}) == change


def test_a_new_copy_gets_what_its_replicas_can_bear() -> None:
    configs = {"retention.ms": "1", "min.insync.replicas": "2"}
    assert plan_topic(1, None, 1, configs) == Create(1, 1, {"retention.ms": "1"})
    assert plan_topic(1, None, 2, configs) == Create(1, 2, configs)
    assert plan_topic(1, None, -1, configs) == Create(1, -1, configs)


def test_equal_topics_have_nothing_to_say() -> None:
    configs = {
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "max.message.bytes": "1048588",
    }
    assert compare(configs, configs, HOUR_MS) == []
    assert compare({}, {}, HOUR_MS) == []


@pytest.mark.parametrize(
    ("source", "target", "age_ms", "words"),
    [
        ({}, {"retention.ms": "3600000"}, 2 * HOUR_MS, "2.0 h old, the target keeps 1.0 h"),
        ({}, {"message.timestamp.before.max.ms": "0"}, HOUR_MS, "refuses records older than 0.0 h"),
        ({}, {"message.timestamp.type": "LogAppendTime"}, None, "overwrites record timestamps"),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact,delete"}, None, "will refuse records without a key"),
        ({"max.message.bytes": "20"}, {"max.message.bytes": "10"}, None, "batches up to 10 bytes, the source up to 20"),
        ({"retention.bytes": "20"}, {"retention.bytes": "10"}, None, "keeps 10 bytes of a partition, the source 20"),
        ({"retention.bytes": "-1"}, {"retention.bytes": "10"}, None, "the source no limit"),
    ],
)
def test_differences(source: dict[str, str], target: dict[str, str], age_ms: int | None, words: str) -> None:
    (found,) = compare(source, target, age_ms)
    assert words in found


@pytest.mark.parametrize(
    ("source", "target", "age_ms"),
    [
        ({}, {"retention.ms": "1"}, None),
        ({"cleanup.policy": "compact"}, {"retention.ms": "1", "cleanup.policy": "compact"}, HOUR_MS),
        ({"cleanup.policy": "compact"}, {"retention.bytes": "1", "cleanup.policy": "compact"}, HOUR_MS),
        ({"retention.bytes": "5"}, {"retention.bytes": "5"}, HOUR_MS),
        ({"max.message.bytes": "5"}, {}, HOUR_MS),
    ],
)
def test_differences_that_do_not_show(source: dict[str, str], target: dict[str, str], age_ms: int | None) -> None:
    assert compare(source, target, age_ms) == []


def test_a_target_that_stamps_records_itself_takes_old_ones() -> None:
    target = {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1"}
    assert len(compare({}, target, HOUR_MS)) == 1

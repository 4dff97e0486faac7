"""What `check` and `run` say of clusters that cannot do everything."""

from collections.abc import Iterable

import msgspec
import pytest

from engine.checks.capability_check import lack_doubts, lack_problems, lack_text
from engine.kafka.capabilities.probe import ClusterAbilities, judge
from engine.kafka.capabilities.table import Side
from tests.unit.engine.config_files import flow, mirror
from tests.unit.engine.kafka.capabilities.test_table import RELEASES

NEW = RELEASES["4.3"]


def cluster(alias: str, without: Iterable[int] = (), **settings: str) -> ClusterAbilities:
    """A cluster of one broker of today that lacks some requests."""
    found = judge(alias, {1: {key: versions for key, versions in NEW.items() if key not in set(without)}})
    named = {name.replace("_", "."): (value,) for name, value in settings.items()}
    return msgspec.structs.replace(found, settings=named)


def test_clusters_that_can_do_everything_are_no_matter() -> None:
    assert lack_doubts(flow(), cluster("A"), cluster("B")) == ()
    assert lack_problems(mirror(), flow(), cluster("A"), cluster("B")) == []


def test_without_transactions_it_is_said_what_that_means_for_a_stale_writer() -> None:
    (text,) = lack_doubts(flow(), cluster("A"), cluster("B", [24, 26]))
    assert text.startswith("cluster 'B' lacks 'transactions': broker 1 does not offer AddPartitionsToTxn, EndTxn: ")
    assert "does not refuse a stale writer" in text
    assert "; instead, a new owner waits 30 s" in text
    assert lack_doubts(flow(), cluster("A", [24, 26]), cluster("B")) == (), "a source needs none"


def test_exactly_once_mode_cannot_run_without_transactions() -> None:
    atomic = flow("B.exactly.once.source.support = enabled\n")
    (problem,) = lack_problems(mirror(), atomic, cluster("A"), cluster("B", [26]))
    assert problem.stops
    assert "disable exactly.once.source.support" in problem.text
    assert lack_problems(mirror(), flow(), cluster("A"), cluster("B", [26])) == []


@pytest.mark.parametrize(("side", "key", "name"), [("A", 1, "Fetch"), ("B", 0, "Produce"), ("B", 22, "InitProducerId")])
def test_what_a_flow_cannot_run_without_is_a_problem(side: str, key: int, name: str) -> None:
    clusters = [cluster(alias, [key] if alias == side else []) for alias in "AB"]
    (problem,) = lack_problems(mirror(), flow(), *clusters)
    assert problem.stops
    assert f"not offer {name}" in problem.text
    assert "as Apache Kafka 2.1 and newer" in problem.text


def test_what_the_flow_does_not_use_is_not_said() -> None:
    lacking = cluster("B", [44, 16, 30])
    assert len(lack_doubts(flow(), cluster("A"), lacking)) == 3
    lines = "emit.checkpoints.enabled = false\nsync.topic.configs.enabled = false\nsync.topic.acls.enabled = false\n"
    assert lack_doubts(flow(lines), cluster("A"), lacking) == ()


def test_several_brokers_are_named() -> None:
    without = {key: versions for key, versions in NEW.items() if key != 61}
    (lack,) = judge("B", {1: without, 2: NEW, 3: without}).lacks(Side.TARGET)
    assert "its brokers 1, 3 do not offer DescribeProducers" in lack_text("B", lack)


def test_a_target_that_stamps_records_or_takes_smaller_batches_is_said_to() -> None:
    source = cluster("A", log_message_timestamp_type="CreateTime", message_max_bytes="1048588")
    target = cluster("B", log_message_timestamp_type="LogAppendTime", message_max_bytes="100000")
    stamps, sizes = lack_doubts(flow(), source, target)
    assert "stamps records when they are appended (log.message.timestamp.type = LogAppendTime)" in stamps
    assert "takes batches up to 100,000 bytes (message.max.bytes), and cluster 'A' up to 1,048,588" in sizes
    assert lack_doubts(flow(), target, target) == ()


def test_a_limit_that_is_no_number_is_no_limit() -> None:
    texts = lack_doubts(flow(), cluster("A", message_max_bytes="2000000"), cluster("B", message_max_bytes="unlimited"))
    assert texts == ()

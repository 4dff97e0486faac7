"""Requests about topics have a limit of topics and of partitions."""

from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from engine.kafka.discovery.request_parts import MOST_PARTITIONS, in_requests


def test_a_request_has_a_limit_of_topics_and_of_partitions() -> None:
    small = {f"t-{number:04}": 1 for number in range(2 * TOPICS_AT_ONCE + 1)}
    assert [len(part) for part in in_requests(small)] == [TOPICS_AT_ONCE, TOPICS_AT_ONCE, 1]
    large = dict.fromkeys("abc", MOST_PARTITIONS // 2) | {"d": 3 * MOST_PARTITIONS}
    assert list(in_requests(large)) == [["a", "b"], ["c"], ["d"]]

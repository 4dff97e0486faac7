"""The text forms of flows, topics and partitions."""

from policies.model import FlowName, LaneName, TopicPartition


def test_names_in_text() -> None:
    lane = LaneName(TopicPartition("orders-eu", 3), TopicPartition("A.orders-eu", 3))
    assert str(lane) == "orders-eu-3"
    assert str(lane.target) == "A.orders-eu-3"
    assert str(FlowName("A", "B")) == "A->B"

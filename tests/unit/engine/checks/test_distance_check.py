"""What `check` says of clusters that are far away."""

import pytest

from engine.checks.distance_check import source_doubt, target_doubt
from engine.kafka.admin.distances import BrokerDistance
from tests.unit.engine.config_files import flow

KIB = 1024


def far(
    node: int = 1, trip_s: float = 0.1, send: int | None = 100 * KIB, receive: int | None = 100 * KIB
) -> BrokerDistance:
    return BrokerDistance(node, trip_s, send, receive)


def test_a_distant_target_with_the_default_buffers_is_named_with_its_bound() -> None:
    assert target_doubt(flow(), [far(7), far(8, 0.05)]) == (
        "cluster 'B' is 100 ms away: broker 7 has socket.receive.buffer.bytes=102400, so one partition is copied at"
        " most at about 1.0 MiB/s, because its order needs one connection; socket.receive.buffer.bytes=-1 there lifts"
        " it, and copiers near the target need less"
    )


def test_a_distant_source_is_read_over_many_connections() -> None:
    assert source_doubt(flow(), [far(7)]) == (
        "cluster 'A' is 100 ms away: broker 7 has socket.send.buffer.bytes=102400, so one connection brings at most"
        " about 1.5 MiB/s: a partition with a backlog is read over up to 64 of them (raymirror.source.connections);"
        " socket.send.buffer.bytes=-1 there lifts it"
    )
    one = source_doubt(flow("A->B.raymirror.source.connections = 1\n"), [far(7)])
    assert "and raymirror.source.connections = 1 permits no more" in one


@pytest.mark.parametrize("near", [far(trip_s=0.019), far(send=-1, receive=-1), far(send=None, receive=None)])
def test_nothing_is_said_of_what_does_not_bound(near: BrokerDistance) -> None:
    assert source_doubt(flow(), [near]) == target_doubt(flow(), [near]) == ""

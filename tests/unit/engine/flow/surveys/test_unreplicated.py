"""Records that only the leader has: behind the high watermark, and no reader sees them."""

from engine.flow.ports.ports import Leader
from engine.flow.surveys.unreplicated import unreplicated
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.source_log import LEADER_EPOCH

HERE, THERE, OLD = (TopicPartition("t", number) for number in range(3))


async def test_what_a_leader_has_beyond_what_it_tells_as_the_end_is_on_its_way() -> None:
    cluster = FakeCluster("A")
    for where in (HERE, THERE, OLD):
        cluster.source(*where).data(7)
        cluster.leader[where] = Leader(1, LEADER_EPOCH, "id")
    cluster.leader[OLD] = Leader(1, -1, "id")  # brokers that tell no epochs
    assert await unreplicated(cluster, {HERE: 5, THERE: 7, OLD: 5}) == {HERE: 7}
    assert await unreplicated(cluster, {}) == {}

"""The disks of brokers, and whether copies have room there."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.base.errors import ConnectionLost
from engine.checks.room_check import lack_of_room
from engine.kafka.admin.log_dirs import room, sizes
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.requests import LOG_DIRS_4, DescribeLogDirs
from policies.model import FlowName, TopicPartition

GIB = 1 << 30


def disk(usable: int, total: int = 100 * GIB, code: int = 0, **topics: dict[int, int]) -> Any:
    rows: list[Any] = [
        (name, [(one, size, 0, False, {}) for one, size in sized.items()], {}) for name, sized in topics.items()
    ]
    rows.append(("moving", [(0, 7, 0, True, {})], {}))
    return code, f"/disk/{usable}", rows, total, usable, {}


class Broker:
    """Tells of its disks, as the wire has it; a code refuses, an exception is raised."""

    def __init__(self, *disks: Any, code: int = 0, knows: bool = True, lost: bool = False) -> None:
        self.disks, self.code, self.knows, self.lost = disks, code, knows, lost

    def supports(self, key: int, version: int) -> bool:
        assert (key, version) == (35, 4)
        return self.knows

    async def call(self, request: DescribeLogDirs) -> Any:
        if self.lost:
            raise ConnectionLost("b:1")
        assert request.build(LOG_DIRS_4).encode()
        answer = LOG_DIRS_4.RESPONSE_TYPE
        return answer.decode(answer.SCHEMA.encode((0, self.code, list(self.disks), {})))


def client(*brokers: Broker) -> ClusterClient:
    async def control(node: int) -> Broker:
        return brokers[node]

    return cast("ClusterClient", SimpleNamespace(nodes=list(range(len(brokers))), control=control))


async def test_the_largest_replica_counts_and_what_moves_to_another_disk_does_not() -> None:
    one, two = Broker(disk(1, t={0: 5, 1: 6})), Broker(disk(1, t={0: 9}), disk(2, u={0: 1}))
    expected = {TopicPartition("t", 0): 9, TopicPartition("t", 1): 6, TopicPartition("u", 0): 1}
    assert await sizes(client(one, two, Broker(lost=True)), {"t": 2, "u": 1}) == expected


@pytest.mark.parametrize(
    ("brokers", "free"),
    [
        ([Broker(disk(5), disk(5), disk(7)), Broker(disk(1))], 13),  # two directories on one volume
        ([Broker(disk(5)), Broker(lost=True)], None),
        ([Broker(disk(5)), Broker(code=31)], None),
        ([Broker(disk(5)), Broker(knows=False)], None),
        ([Broker(disk(5)), Broker(disk(9, code=56))], None),
        ([Broker(disk(-1))], None),
        ([], None),
    ],
)
async def test_room_is_what_all_brokers_have(brokers: list[Broker], free: int | None) -> None:
    assert await room(client(*brokers)) == free


async def test_copies_that_do_not_fit_are_said() -> None:
    flow = FlowName("A", "B")
    source = client(Broker(disk(1, t={0: 3 * GIB, 1: 2 * GIB})))
    target = client(Broker(disk(6 * GIB)), Broker(disk(3 * GIB)))
    says = await lack_of_room(flow, source, target, {"t": 2}, 2)
    assert (
        "take about 10.0 GiB (the size of these topics on 'A' 2 times), and the brokers of cluster 'B' have 9.0" in says
    )
    assert "A->B.raymirror.start" in says
    assert await lack_of_room(flow, source, target, {"t": 2}, -1) == ""
    assert await lack_of_room(flow, source, target, {}, 2) == ""
    assert await lack_of_room(flow, source, client(Broker(knows=False)), {"t": 2}, 9) == ""
    assert "these topics on 'A')" in await lack_of_room(flow, source, client(Broker(disk(1))), {"t": 2}, 1)

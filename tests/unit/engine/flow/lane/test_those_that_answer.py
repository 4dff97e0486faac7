"""Partitions whose brokers are unreachable hide no others."""

import pytest

from engine.base.errors import ConnectionLost, OtherCluster
from engine.flow.lane.those_that_answer import read_those_that_answer

LOGS = {0: [1, 2], 2: [3]}


async def read(partition: int) -> list[int]:
    if partition not in LOGS:
        raise ConnectionLost(f"partition {partition}")
    return LOGS[partition]


async def test_records_come_in_the_order_of_partitions() -> None:
    records, failed = await read_those_that_answer(read, [2, 1, 0])
    assert records == [3, 1, 2]
    assert {partition: str(why) for partition, why in failed.items()} == {1: str(ConnectionLost("partition 1"))}
    assert await read_those_that_answer(read, []) == ([], {})


async def test_where_none_answers_the_first_failure_is_raised() -> None:
    with pytest.raises(ConnectionLost, match="partition 1"):
        await read_those_that_answer(read, [3, 1])


async def test_another_cluster_is_no_silence() -> None:
    async def other(partition: int) -> list[int]:
        raise OtherCluster("b:1", "found", "named", "right")

    with pytest.raises(OtherCluster):
        await read_those_that_answer(other, [0, 1])

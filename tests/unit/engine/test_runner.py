"""A copier whose cluster nobody answers for: it waits, says so, and ends when it is asked to."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from engine.config import read_config
from engine.properties import parse_properties
from engine.runner import Copier
from policies.model import LaneName, PartitionSet, TopicPartition


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, and refuses every connection: nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_it_waits_for_its_cluster_and_may_be_drained_meanwhile(closed_port: int) -> None:
    text = f"""clusters = A, B
A.bootstrap.servers = 127.0.0.1:{closed_port}
B.bootstrap.servers = 127.0.0.1:{closed_port}
A->B.enabled = true
"""
    config = read_config(parse_properties(text, "mm2.properties"))
    copier = Copier(config, config.flows[0], copier_id="copier-1", deployment_id="d")
    lane = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(copier.run())
        copier.assign(PartitionSet(set_id="A->B/000", flow=config.flows[0].name, epoch=1, lanes=(lane,)))
        while not copier.progress().waits_for:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        assert f"127.0.0.1:{closed_port}: cannot connect" in copier.progress().waits_for
        beat = copier.progress().beat
        while copier.progress().beat == beat:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        assert not running.done()
        await copier.drain()
        await running
    assert [one.state for one in copier.progress().lanes] == ["stopped"]

"""Fixtures of contract tests: the fake, then a real broker; and Kafka's own classes."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from engine.base.errors import ConnectionLost
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from engine.kafka.protocol.requests import DescribeTransactions
from tests.contract.stage import FakeStage, RealStage, Stage
from tests.harness.mirror import cluster_client


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A stage whose topic bears the test's name."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    if request.param == "fake":
        yield FakeStage(name)
        return
    cluster = request.getfixturevalue("source_cluster")
    client = cluster_client("b", cluster.bootstrap_servers)
    await client.open()
    await _coordinate(client)
    real = RealStage(name, cluster, KafkaCluster(client))
    try:
        async with real.closing:
            yield real
    finally:
        await client.close()


async def _coordinate(client: ClusterClient) -> None:
    """Wait until a new cluster has coordinators: the first one asked for is told 'not available' (ConnectionLost)."""
    async with asyncio.timeout(180):
        while True:
            try:
                await client.coordinator_call("any", DescribeTransactions(["any"]))
                return
            except ConnectionLost:
                await asyncio.sleep(0.05)

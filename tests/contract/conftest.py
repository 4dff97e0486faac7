"""The stage of a contract test: the fake, then a real broker; and Kafka's own classes."""

import asyncio
import logging
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

from deploy.local.jars import ensure_jars, kafka_classpath, say_aloud
from deploy.local.java import find_java
from engine.errors import ConnectionLost
from engine.kafka.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from engine.kafka.protocol import DescribeTransactions
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
    async with asyncio.timeout(30):
        while True:
            try:
                await client.coordinator_call("any", DescribeTransactions(["any"]))
                return
            except ConnectionLost:
                await asyncio.sleep(0.05)


@pytest.fixture(scope="session")
def java() -> Iterator[Any]:
    """Give the classes of a JVM with Kafka's jars; it ends when its input closes."""
    ensure_jars(say_aloud)
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    command = [
        str(find_java()),
        "-cp",
        f"{py4j}:{kafka_classpath()}",
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "0",
    ]
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True, enable_memory_management=False)
        )
        try:
            yield gateway.jvm
        finally:
            gateway.close()
            process.kill()

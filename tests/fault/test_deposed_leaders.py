"""Target leaders that are deposed while they wait for a slow follower, and records so old that producers are forgotten.

A deposed leader answers 6 for batches that are in its log, and in the next leader's (Kafka's DelayedProduce). The next
leader has forgotten raymirror's producer by then: it would accept the same batch a second time.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster, running_clusters
from deploy.local.ports import HOST
from engine.base.clock import now_s
from engine.core.lane.states import State
from tests.harness.compare import assert_identical
from tests.harness.jvm import jvm
from tests.harness.load import Sent, append, producer
from tests.harness.mirror import Mirror, Run

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

PARTITIONS = 20
MOVES = 200
BATCH = 10
LONG_AGO_MS = 1_600_000_000_000
FORGETFUL = {"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "10"}
DEADLINE_S = 180.0
_IN_FLIGHT_S = 1.5
"""How long batches are waited for that wait for the slow follower; less than a broker's session."""


class Leaderships:
    """Moves the leadership of all partitions of a topic between two brokers; the third one only follows."""

    def __init__(self, classes: Any, servers: str, topic: str) -> None:
        kafka = classes.org.apache.kafka
        settings = classes.java.util.Properties()
        settings.put("bootstrap.servers", servers)
        # The client sends to the broker that its metadata names as the controller, which is any broker (KRaft). If that
        # is the stopped one, it stays with it until the call ends: so calls end soon, and are made again with news.
        settings.put("request.timeout.ms", "2000")
        settings.put("default.api.timeout.ms", "2000")
        settings.put("metadata.max.age.ms", "500")
        self._admin = kafka.clients.admin.AdminClient.create(settings)
        self._java, self._kafka = classes.java, kafka
        self._partitions = [kafka.common.TopicPartition(topic, n) for n in range(PARTITIONS)]

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def move(self, replicas: list[int]) -> None:
        """Let the first of `replicas` lead every partition."""
        order = self._java.util.Optional.of(self._kafka.clients.admin.NewPartitionReassignment(replicas))
        wanted = self._java.util.HashMap()
        for partition in self._partitions:
            wanted.put(partition, order)
        self._until_answered(lambda: self._admin.alterPartitionReassignments(wanted).all())
        kind, partitions = self._kafka.common.ElectionType.PREFERRED, self._java.util.HashSet(wanted.keySet())
        self._until_answered(lambda: self._admin.electLeaders(kind, partitions).partitions())

    @staticmethod
    def _until_answered(call: Callable[[], Any]) -> None:
        """Make a call that may be made twice, until a broker that runs answers it."""
        give_up_at_s = now_s() + DEADLINE_S
        while True:
            try:
                call().get()
            except Py4JJavaError as error:
                if "TimeoutException" not in str(error.java_exception) or now_s() > give_up_at_s:
                    raise
            else:
                return


@contextmanager
def clusters(folder: Path) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """A source, and a target of three brokers that forget: the first alone is the controller."""
    source = EmbeddedCluster("source", folder / "source")
    target = EmbeddedCluster("target", folder / "target", brokers=3, heap_mib=512, overrides=FORGETFUL)
    target.overrides["controller.quorum.voters"] = f"1@{HOST}:{target.brokers[0].address.controller_port}"
    for broker in target.brokers[1:]:
        target.own[broker.node_id] = {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{broker.port}"}
    target.own[target.brokers[2].node_id]["producer.id.expiration.ms"] = "86400000"  # brokers may differ
    with running_clusters(source, target):
        yield source, target


@contextmanager
def slow(broker: Broker) -> Iterator[None]:
    """Stop a follower for a moment: what needs all replicas waits for it."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def waiting(run: Run) -> int:
    """How many lanes have records under way."""
    return sum(1 for driver in run.copier.drivers.values() if driver.lane.in_flight)


async def wait_in_flight(run: Run) -> int:
    give_up_at_s = now_s() + _IN_FLIGHT_S
    while waiting(run) < PARTITIONS and now_s() < give_up_at_s:  # noqa: ASYNC110 - the lanes tell nobody
        await asyncio.sleep(0.01)
    return waiting(run)


async def test_leaders_deposed_while_they_wait_for_a_slow_follower(tmp_path: Path, figures: dict[str, Any]) -> None:
    with clusters(tmp_path) as (source, target), jvm() as classes:
        mirror = Mirror(source, target, "deposed")
        await mirror.open()
        forever = {"retention.ms": "-1"}
        copied = await mirror.topic("t", PARTITIONS, on_source=forever, on_target=forever)
        async with mirror.asking_target() as asked:
            assert await asked.producer_expiries_s() == {1: 5.0, 2: 5.0, 3: 86_400.0}
        leaderships = Leaderships(classes, target.bootstrap_servers, copied)
        await asyncio.to_thread(leaderships.move, [1, 3, 2])
        sent = moves = rounds = 0
        async with producer(source) as client, mirror.run() as run:

            async def pour() -> None:
                nonlocal sent
                records = [Sent(b"%d" % n, b"of long ago", (), LONG_AGO_MS) for n in range(sent, sent + BATCH)]
                sent += BATCH
                await asyncio.gather(*(append(client, "t", n, records) for n in range(PARTITIONS)))

            await pour()
            await run.until_copied(deadline_s=DEADLINE_S)
            while moves < MOVES:
                rounds += 1
                to = 3 if rounds % 2 else 1
                with slow(target.brokers[1]):
                    await pour()
                    moves += await wait_in_flight(run)  # a leader that waits for nobody is not counted
                    await asyncio.to_thread(leaderships.move, [to, 4 - to, 2])
                await run.until_copied(deadline_s=DEADLINE_S)
            assert all(driver.lane.state is State.COPYING for driver in run.copier.drivers.values())
        leaderships.close()
        identical = await assert_identical(source, target, "t", copied)
        assert identical == sent * PARTITIONS
        figures["leaders deposed under a slow follower"] = {"moves": moves, "rounds": rounds, "records": identical}

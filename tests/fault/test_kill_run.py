"""kill -9 of the whole `raymirror run`, Ray and all: what the dead copiers still write must not double anything."""

import asyncio
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from actors.demo.reader import read_topics
from deploy.local.cluster import Cluster
from engine.clock import pause
from tests.harness.admin import create_topics
from tests.harness.shell import DEADLINE_S, Shell, write_config

pytestmark = [pytest.mark.fault, pytest.mark.full, pytest.mark.ray]

PARTITIONS = 4
RECORDS = 600_000
KILLS = 3


async def wait_for_more(target: Cluster, topic: str, than: int) -> int:
    """Wait until the copy has grown, without asking the mirror; return its end offsets added up."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(bootstrap_servers=target.bootstrap_servers)
    await consumer.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            ends = await consumer.end_offsets(partitions) if topic in await consumer.topics() else {}
            if sum(ends.values()) > than:
                return sum(ends.values())
            assert time.monotonic() < deadline, f"{topic} has not grown beyond {than}"
            await pause(0.02)
    finally:
        await consumer.stop()


def kill_everything(shell: Shell) -> None:
    """kill -9 the command; Ray's own processes follow it, copiers write on for a while."""
    assert shell.started is not None
    shell.started.send_signal(signal.SIGKILL)
    shell.started.wait()


def test_kill_minus_nine_of_everything(pair: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    source, target = pair
    topic, copied = "killed-run", "source.killed-run"
    asyncio.run(create_topics(source, {topic: PARTITIONS}))
    source.tool(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(RECORDS)),
        *("--record-size", "300", "--throughput", "-1", "--bootstrap-server", source.bootstrap_servers),
        *("--command-property", "compression.type=lz4", "linger.ms=20"),
    )
    shell = Shell(tmp_path)
    config = write_config(tmp_path, source, target, topic)
    reached = PARTITIONS * (KILLS + 1)  # markers of the barriers are no records
    for _ in range(KILLS):
        shell.start("run", str(config))
        reached = asyncio.run(wait_for_more(target, copied, reached))
        time.sleep(random.uniform(0.0, 0.3))  # the moment of the kill is what varies
        kill_everything(shell)
        assert reached < RECORDS, "the mirror was done before it was killed: the kill proves nothing"
    run = shell.start("run", str(config))
    status = shell.until(lambda s: sum(max(0, lane["source_next"]) for lane in s["lanes"]) == RECORDS)
    assert {lane["state"] for lane in status["lanes"]} == {"copying"}
    assert shell("stop").returncode == 0
    run.wait(DEADLINE_S)
    ours, theirs = read_topics(source.bootstrap_servers, [topic]), read_topics(target.bootstrap_servers, [copied])
    assert {number: digest for (_, number), digest in ours.items()} == {
        number: digest for (_, number), digest in theirs.items()
    }
    assert not [p.pid for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]

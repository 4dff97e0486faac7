"""kill -9 of the whole `raymirror run`, Ray and all: late writes of the dead copiers must double nothing."""

import asyncio
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from actors.demo.reader import read_topics
from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import pause
from tests.harness.admin import create_topics
from tests.harness.shell import DEADLINE_S, Shell, write_config

pytestmark = [pytest.mark.fault, pytest.mark.full, pytest.mark.ray]

PARTITIONS = 4
RECORDS = 600_000


async def wait_for_more(target: EmbeddedCluster, topic: str, than: int) -> int:
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


def test_kill_minus_nine_of_everything(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path, record_count: int, figures: dict[str, Any]
) -> None:
    """Three kills in 600,000 records, ten where the matrix is run over 2,000,000."""
    source, target = pair
    records, kills = (record_count, 10) if record_count >= 2_000_000 else (RECORDS, 3)
    topic, copied = "killed-run", "source.killed-run"
    asyncio.run(create_topics(source, {topic: PARTITIONS}))
    source.tool(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(records)),
        *("--record-size", "300", "--throughput", "-1", "--bootstrap-server", source.bootstrap_servers),
        *("--command-property", "compression.type=lz4", "linger.ms=20"),
    )
    shell = Shell(tmp_path)
    config = write_config(tmp_path, source, target, topic)
    reached = PARTITIONS * (kills + 1)  # markers of the barriers are no records
    seen: list[int] = []
    for _ in range(kills):
        shell.start("run", str(config))
        reached = asyncio.run(wait_for_more(target, copied, reached))
        time.sleep(random.uniform(0.0, 0.1))  # the moment of the kill is what varies
        kill_everything(shell)
        seen.append(reached)
        assert reached < records, "the mirror was done before it was killed: the kill proves nothing"
    run = shell.start("run", str(config))
    status = shell.until(lambda s: sum(max(0, lane["source_next"]) for lane in s["lanes"]) == records)
    assert {lane["state"] for lane in status["lanes"]} == {"copying"}
    assert shell("stop").returncode == 0
    run.wait(DEADLINE_S)
    ours, theirs = read_topics(source.bootstrap_servers, [topic]), read_topics(target.bootstrap_servers, [copied])
    assert {number: digest for (_, number), digest in ours.items()} == {
        number: digest for (_, number), digest in theirs.items()
    }
    figures["whole mirror, kill -9"] = {"records": records, "kills": kills, "target_ends_before_kills": seen}
    assert not [p.pid for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]

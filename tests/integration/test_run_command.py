"""`raymirror run` on real clusters, and `status`, `pause`, `resume`, `stop` from other processes.

The tests of one mirror are steps of one story and run in order; a second story is an end by SIGTERM and a new start.
"""

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from actors.demo.reader import read_topics
from actors.demo.topics import create_topics
from deploy.local.cluster import Cluster
from tests.harness.shell import Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]


def produce(cluster: Cluster, topic: str, count: int, first: int = 0) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type="lz4")
        await producer.start()
        try:
            for number in range(first, first + count):
                await producer.send(topic, b"record %d" % number, key=b"%d" % number, partition=number % 2)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(send())


def copied(records: int) -> Callable[[dict[str, Any]], bool]:
    """Every partition at its end, and so many records behind it."""

    def check(status: dict[str, Any]) -> bool:
        flow = status["flows"][0]
        at = sum(max(0, lane["source_next"]) for lane in status["lanes"])
        return bool(flow["unknown_lanes"] == 0 and flow["lag_records"] == 0 and at == records)

    return check


def same(source: Cluster, target: Cluster, topic: str) -> bool:
    ours = read_topics(source.bootstrap_servers, [topic])
    theirs = read_topics(target.bootstrap_servers, [f"source.{topic}"])
    return {number: digest for (_, number), digest in ours.items()} == {
        number: digest for (_, number), digest in theirs.items()
    }


class Story:
    """One running mirror of the topics told-a and told-b."""

    def __init__(self, shell: Shell, process: subprocess.Popen[bytes], config: Path) -> None:
        self.shell, self.process, self.config = shell, process, config


@pytest.fixture(scope="module")
def story(
    source_cluster: Cluster, target_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("run")
    shell = Shell(folder)
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"told-a": 2, "told-b": 2}))
    produce(source_cluster, "told-a", 1000)
    produce(source_cluster, "told-b", 1000)
    config = write_config(folder, source_cluster, target_cluster, "told-.*")
    process = shell.start("run", str(config))
    try:
        yield Story(shell, process, config)
    finally:
        process.terminate()
        process.wait(60)


def test_it_copies_what_is_there(story: Story, source_cluster: Cluster, target_cluster: Cluster) -> None:
    status = story.shell.until(copied(2000))
    assert status["phase"] == "running"
    assert status["flows"][0]["topics"] == 2
    assert same(source_cluster, target_cluster, "told-a")
    assert same(source_cluster, target_cluster, "told-b")


def test_a_second_run_of_the_same_mirror_is_refused(story: Story) -> None:
    done = story.shell("run", str(story.config))
    assert done.returncode == 2
    assert "already runs" in done.stderr


def test_a_paused_topic_stands_still_while_the_other_goes_on(
    story: Story, source_cluster: Cluster, target_cluster: Cluster
) -> None:
    paused = story.shell("pause", "source->target", "--topics", "told-a")
    assert paused.returncode == 0, paused.stderr
    story.shell.until(lambda status: status["flows"][0]["paused_topics"] == ["told-a"])
    time_to_hear = time.monotonic() + 3  # the command is carried out in the next step, a second at most
    while time.monotonic() < time_to_hear:
        story.shell.status()
    produce(source_cluster, "told-a", 500, first=1000)
    produce(source_cluster, "told-b", 500, first=1000)

    def other_went_on(status: dict[str, Any]) -> bool:
        at = {name: sum(row["source_next"] for row in status["lanes"] if row["lane"][0] == name) for name in NAMES}
        return at == {"told-a": 1000, "told-b": 1500}

    story.shell.until(other_went_on)
    assert not same(source_cluster, target_cluster, "told-a")
    assert same(source_cluster, target_cluster, "told-b")


NAMES = ("told-a", "told-b")


def test_resume_goes_on_where_it_was(story: Story, source_cluster: Cluster, target_cluster: Cluster) -> None:
    assert story.shell("resume", "source->target", "--topics", "told-a").returncode == 0
    story.shell.until(copied(3000))
    assert same(source_cluster, target_cluster, "told-a")


def test_a_topic_that_appears_is_copied(story: Story, source_cluster: Cluster, target_cluster: Cluster) -> None:
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"told-c": 2}))
    produce(source_cluster, "told-c", 100)
    story.shell.until(copied(3100))
    assert same(source_cluster, target_cluster, "told-c")


def test_wrong_names_are_one_line_and_exit_code_2(story: Story) -> None:
    for words, says in ((("pause", "a->b"), "source->target"), (("pause", "source->target", "--topics", "x"), "'x'")):
        done = story.shell(*words)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_stop_ends_it_in_order(story: Story) -> None:
    done = story.shell("stop")
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
    assert story.process.wait(30) == 0, (story.shell.folder / "run.log").read_text()[-3000:]
    gone = story.shell("status")
    assert gone.returncode == 3
    assert len(gone.stderr.splitlines()) == 1
    assert "no running mirror" in gone.stderr


def test_sigterm_drains_and_a_new_start_goes_on_without_duplicates(
    source_cluster: Cluster, target_cluster: Cluster, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"started-again": 2}))
    produce(source_cluster, "started-again", 1000)
    config = write_config(tmp_path, source_cluster, target_cluster, "started-again")
    for round_number in (1, 2):
        process = shell.start("run", str(config))
        try:
            shell.until(copied(1000 * round_number))
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        assert code == 0, (tmp_path / "run.log").read_text()[-3000:]
        produce(source_cluster, "started-again", 1000, first=1000 * round_number)
    produced = read_topics(source_cluster.bootstrap_servers, ["started-again"])
    held = read_topics(target_cluster.bootstrap_servers, ["source.started-again"])
    for (_, number), digest in produced.items():
        # the third thousand was written after the end: what was copied is a beginning, each record once
        copy = held["source.started-again", number]
        assert copy.records == 1000
        assert digest.digests.startswith(copy.digests)
